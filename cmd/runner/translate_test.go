package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// The runner's own program before a server that speaks the older era alone: what policies refuse to a client of the
// newer era never reaches the server, and lists have what they permit. That holds as well where the server is at
// another path, as frameworks have it that redirect to the same path with a slash.
func TestPoliciesStandBeforeATranslation(t *testing.T) {
	for _, path := range []string{"/mcp", "/mcp/"} {
		t.Run("a server at "+path, func(t *testing.T) { policiesStandBefore(t, path) })
	}
}

// legacy serves the older era alone, with these tools, each of which says that it did.
func legacy(tools ...string) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "legacy", Version: "1"}, nil)
	for _, name := range tools {
		mcp.AddTool(server, &mcp.Tool{Name: name},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "did " + name}}}, nil, nil
			})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{DisableLocalhostProtection: true})
}

func policiesStandBefore(t *testing.T, path string) {
	t.Helper()
	handler := legacy("add", "drop")
	var mu sync.Mutex
	var calls []string
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.Redirect(w, r, "http://"+r.Host+path, http.StatusTemporaryRedirect)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "tools/call") {
			mu.Lock()
			calls = append(calls, string(body))
			mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { backend.CloseClientConnections(); backend.Close() })
	p := start(t, sample(t, func(r *runconfig.RunConfig) {
		r.Proxy.Authorization = &runconfig.Authorization{Policies: []runconfig.Policy{{
			Name: "add", Text: `permit(principal, action == Action::"call_tool", resource == Tool::"add");`,
		}}}
	}), backend.URL)
	p.await("it reaches the backend", func() bool { return p.get("/readyz") == http.StatusOK })

	client := mcp.NewClient(&mcp.Implementation{Name: "modern", Version: "1"}, nil)
	session, err := client.Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://" + p.calls + "/mcp", MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if version := session.InitializeResult().ProtocolVersion; version != "2026-07-28" {
		t.Fatalf("the client speaks %s", version)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "add" {
		t.Errorf("the list is %+v: %v", list, err)
	}
	done, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "add"})
	if err != nil || done.Content[0].(*mcp.TextContent).Text != "did add" {
		t.Errorf("add answers %+v: %v", done, err)
	}
	denied, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "drop"})
	if err != nil || !denied.IsError ||
		!strings.Contains(denied.Content[0].(*mcp.TextContent).Text, `may not call tool "drop"`) {
		t.Errorf("drop answers %+v: %v", denied, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(calls) != 1 || !strings.Contains(calls[0], `"add"`) {
		t.Errorf("the backend was called with %s", calls)
	}
}
