// Command tools is an MCP server with sessions and with the tools that its arguments name. Each of them answers which
// ROUND the server is of. Without a tool it ends at once.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("name the tools")
	}
	round := os.Getenv("ROUND")
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: round}, nil)
	answer := func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "round " + round + "."}}}, nil, nil
	}
	for _, name := range os.Args[1:] {
		mcp.AddTool(server, &mcp.Tool{Name: name}, answer)
	}
	serve := &http.Server{
		Addr: ":8080", ReadHeaderTimeout: time.Minute,
		Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil),
	}
	log.Fatal(serve.ListenAndServe())
}
