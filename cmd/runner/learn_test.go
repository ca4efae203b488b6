package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// serving is a server of the MCP Go SDK with two tools and a prompt.
func serving(t *testing.T, name string, options *mcp.StreamableHTTPOptions) settings {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1.2.3"}, nil)
	for _, tool := range []string{"one", "two"} {
		mcp.AddTool(server, &mcp.Tool{Name: tool}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
	}
	server.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) { return nil, nil })
	return at(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options))
}

func at(t *testing.T, handler http.Handler) settings {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return settings{backend: u, run: runconfig.RunConfig{Backend: runconfig.Backend{Path: "/mcp"}}}
}

func TestWhatABackendSaysOfItself(t *testing.T) {
	want := backend.Facts{
		Server: &v1alpha1.ServerInfo{Name: "bench", Version: "1.2.3"},
		Tools:  new(int32(2)), Prompts: new(int32(1)), Resources: new(int32(0)),
	}
	for name, tc := range map[string]struct {
		options  *mcp.StreamableHTTPOptions
		versions []string
	}{
		"modern and legacy": {&mcp.StreamableHTTPOptions{Stateless: true}, []string{"2025-11-25", "2026-07-28"}},
		"legacy":            {&mcp.StreamableHTTPOptions{}, []string{"2025-11-25"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ask(t.Context(), serving(t, "bench", tc.options), slog.New(slog.DiscardHandler))
			want.ProtocolVersions = tc.versions
			if diff := cmp.Diff(want, got); diff != "" || !ok {
				t.Errorf("%v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestABackendThatSaysNothing(t *testing.T) {
	asked := 0
	s := at(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		http.Error(w, "who are you?", http.StatusUnauthorized)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if facts, ok := ask(ctx, s, slog.New(slog.DiscardHandler)); ok {
		t.Errorf("learned %v", facts)
	}
	if _, err := learn(t.Context(), s.endpoint()); err == nil || asked == 0 {
		t.Errorf("got %v after %d requests", err, asked)
	}
}

func TestNothingIsAskedOfABackendThatIsNotServed(t *testing.T) {
	s := at(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	s.run.NotEnforced = []string{"spec.authzConfig"}
	if _, ok := ask(t.Context(), s, slog.New(slog.DiscardHandler)); ok {
		t.Error("something was learned")
	}
}

func TestNamesAreCutToWhatTheStatusTakes(t *testing.T) {
	got, _ := ask(t.Context(), serving(t, strings.Repeat("ä", maxName), &mcp.StreamableHTTPOptions{Stateless: true}), slog.New(slog.DiscardHandler))
	if got.Server == nil || got.Server.Name != strings.Repeat("ä", maxName/2) {
		t.Errorf("got %v", got.Server)
	}
	if got := cut("a" + strings.Repeat("ä", maxName)); len(got) != maxName-1 {
		t.Errorf("half a character stays: %d bytes", len(got))
	}
}
