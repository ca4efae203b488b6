// Command hello is an MCP server over streamable HTTP as somebody's image has it, who reads docs/start/image.md: it
// listens on port 8080, and takes no arguments.
package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "hello", Version: "1.2.3"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(
		context.Context, *mcp.CallToolRequest, struct{},
	) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
	})
	serve := &http.Server{
		Addr: ":8080", ReadHeaderTimeout: time.Minute,
		Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil),
	}
	log.Fatal(serve.ListenAndServe())
}
