package proxy

import (
	"context"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Three real servers that keep sessions in memory, behind two proxies that a client of
// the official SDK meets in turn: with the newest revision it asks for, and the older
// one that they agree on.
func TestTheSDKsClientKeepsItsSessionThroughTwoProxies(t *testing.T) {
	b, secret := newBackends(t, 3), secretOf(t)
	for _, p := range b.pods {
		server := mcp.NewServer(&mcp.Implementation{Name: p.address.String(), Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "where"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: p.address.String()}}}, nil, nil
			})
		p.Config.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
			&mcp.StreamableHTTPOptions{DisableLocalhostProtection: true})
	}
	proxies := []*bench{b.before(secret), b.before(secret)}
	turn := 0
	inTurn := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		turn++
		r = r.Clone(r.Context())
		r.URL.Host = proxies[turn%2].url[len("http://"):]
		return http.DefaultTransport.RoundTrip(r)
	})}
	at := map[string]bool{}
	for _, revision := range []string{"", "2025-11-25", "", "2025-06-18", "", "2025-11-25"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(),
			&mcp.StreamableClientTransport{
				Endpoint: proxies[0].url + "/mcp", HTTPClient: inTurn, DisableStandaloneSSE: true,
				MaxRetries: -1,
			},
			&mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatalf("revision %q: %v", revision, err)
		}
		began := session.InitializeResult().ServerInfo.Name
		at[began] = true
		for range 4 {
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "where"})
			if err != nil {
				t.Fatalf("revision %q: %v", revision, err)
			}
			if got := result.Content[0].(*mcp.TextContent).Text; got != began {
				t.Errorf("the session at %s was served by %s", began, got)
			}
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(at) < 2 {
		t.Errorf("all sessions began at %v", at)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
