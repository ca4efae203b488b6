// Command notes is an MCP server that keeps one thing in a folder: how often it was
// started there, which is its version.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	file, err := os.OpenFile(filepath.Join(os.Args[1], "starts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := file.WriteString("."); err != nil {
		log.Fatal(err)
	}
	starts, err := file.Stat()
	if err != nil {
		log.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: fmt.Sprint(starts.Size())}, nil)
	serve := &http.Server{
		Addr: ":8080", ReadHeaderTimeout: time.Minute,
		Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil),
	}
	log.Fatal(serve.ListenAndServe())
}
