package proxy

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type question struct {
	Text string `json:"text"`
}

// handler is a server of the MCP Go SDK with one tool, which reports progress
// before it answers.
func handler(options *mcp.StreamableHTTPOptions) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.2.3"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"},
		func(ctx context.Context, r *mcp.CallToolRequest, q question) (*mcp.CallToolResult, any, error) {
			err := r.Session.NotifyProgress(ctx,
				&mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: q.Text}}}, nil, err
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
}

func TestClientOfTheSDK(t *testing.T) {
	for name, tc := range map[string]struct {
		options *mcp.StreamableHTTPOptions
		asked   string
		want    string
		methods []string
	}{
		"modern": {&mcp.StreamableHTTPOptions{Stateless: true}, "", "2026-07-28", []string{"POST"}},
		"legacy with a session": {
			&mcp.StreamableHTTPOptions{}, "2025-11-25", "2025-11-25", []string{"DELETE", "GET", "POST"},
		},
		"modern client, legacy server": {
			&mcp.StreamableHTTPOptions{}, "", "2025-11-25", []string{"DELETE", "GET", "POST"},
		},
		"legacy, answers as JSON": {
			&mcp.StreamableHTTPOptions{JSONResponse: true}, "2025-06-18", "2025-06-18", []string{"DELETE", "GET", "POST"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			methods := make(chan string, 100)
			served := handler(tc.options)
			b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				methods <- r.Method
				served.ServeHTTP(w, r)
			}))
			progress := make(chan struct{}, 1)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
					progress <- struct{}{}
				},
			})
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: b.url + "/mcp"},
				&mcp.ClientSessionOptions{ProtocolVersion: tc.asked})
			if err != nil {
				t.Fatal(err)
			}
			if got := session.InitializeResult(); got.ProtocolVersion != tc.want || got.ServerInfo.Name != "bench" {
				t.Errorf("got revision %s of server %q", got.ProtocolVersion, got.ServerInfo.Name)
			}
			call := &mcp.CallToolParams{Name: "echo", Arguments: question{Text: "hello"}}
			call.SetProgressToken("p1")
			result, err := session.CallTool(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			if got := result.Content[0].(*mcp.TextContent).Text; got != "hello" {
				t.Errorf("the tool answered %q", got)
			}
			if !tc.options.JSONResponse { // which has no place for notifications
				wait(t, "the progress notification", progress)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			if got := distinct(methods); !slices.Equal(got, tc.methods) {
				t.Errorf("the backend got %v, want %v", got, tc.methods)
			}
		})
	}
}

func distinct(methods chan string) []string {
	var all []string
	for len(methods) > 0 {
		all = append(all, <-methods)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestClientOfTheSDKReadsWhyACallEnded(t *testing.T) {
	running := make(chan struct{})
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "hang"},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			close(running)
			<-ctx.Done()
			return nil, nil, ctx.Err()
		})
	b := serve(t, Config{}, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: b.url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hang", Arguments: struct{}{}})
		ended <- err
	}()
	wait(t, "the call to arrive", running)
	done := b.drain(quick)
	if err := <-ended; err == nil {
		t.Error("the call was answered")
	} else {
		t.Log(err)
	}
	wait(t, "the drain to end", done)
}
