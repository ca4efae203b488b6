package call

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// echo is an MCP server that refuses its first requests, as one does that starts.
func echo(t *testing.T) (url string, called *atomic.Int32) {
	t.Helper()
	called = &atomic.Int32{}
	server := mcp.NewServer(&mcp.Implementation{Name: "echo"}, nil)
	type input struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"},
		func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
			called.Add(1)
			if in.Text == "" {
				return nil, nil, errors.New("say something")
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "you said " + in.Text}}}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= 4 {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, called
}

func TestWhatACallSays(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		code  int
		says  string
		calls int32
	}{
		"a tool that answers":        {[]string{"--tool=echo", `--arguments={"text":"hello"}`}, 0, "you said hello", 1},
		"no tool":                    {nil, 0, "has the tools echo", 0},
		"a tool that fails":          {[]string{"--tool=echo", `--arguments={"text":""}`}, 1, "say something", 1},
		"a tool that does not exist": {[]string{"--tool=none"}, 1, "calling the tool none", 0},
		"arguments that are no JSON": {[]string{"--arguments=x"}, 2, "--arguments is no JSON object", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for a server that starts
			url, called := echo(t)
			var out strings.Builder
			code := Main(t.Context(), append(tc.args, "--url="+url, "--timeout=20s"), &out, &out)
			if code != tc.code || !strings.Contains(out.String(), tc.says) || called.Load() != tc.calls {
				t.Errorf("exit code %d after %d calls, saying %q; want %d after %d, and %q", code, called.Load(), out.String(),
					tc.code, tc.calls, tc.says)
			}
		})
	}
}

func TestWhoeverDoesNotAnswerIsGivenUp(t *testing.T) {
	var out strings.Builder
	if code := Main(t.Context(), []string{"--url=http://127.0.0.1:1/mcp", "--timeout=100ms"}, &out, &out); code != 1 ||
		!strings.Contains(out.String(), "connecting to http://127.0.0.1:1/mcp for 100ms") {
		t.Errorf("exit code %d, saying %q", code, out.String())
	}
	if code := Main(t.Context(), nil, &out, &out); code != 2 || !strings.Contains(out.String(), "--url is missing") {
		t.Errorf("exit code %d without a URL", code)
	}
}
