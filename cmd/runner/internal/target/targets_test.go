package target

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// folder is a directory with files.
func folder(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tools is a server of the older era with two tools, which say whose they are.
func tools(t *testing.T, whose string) (url string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: whose, Version: "1"}, nil)
	for _, name := range []string{"add", "drop"} {
		mcp.AddTool(server, &mcp.Tool{Name: name},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " of " + whose}}}, nil, nil
			})
	}
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: true, DisableLocalhostProtection: true}))
	t.Cleanup(func() { pipelinetest.Stop(s) })
	return s.URL
}

// guest is a server behind the proxy, and somebody who may call one of its tools.
type guest struct {
	issuer      *oidctest.Issuer
	path, token string
	config      proxy.Config
	login       *oidc.Login
}

// newGuest is one at a path before a backend, whose policies let everybody with a token of its issuer call one tool.
func newGuest(t *testing.T, issuer *oidctest.Issuer, path, backend, tool string, log slog.Handler) *guest {
	t.Helper()
	resource := "https://mcp.example.com" + path
	run := sample(func(r *runconfig.Target) {
		guardedBy(issuer.URL)(r)
		r.Server.UID, r.Proxy.Path = path, path
		r.Proxy.Authentication.Resource, r.Proxy.Authentication.Audiences = resource, []string{resource}
		r.Proxy.Authorization.Policies[0].Text = fmt.Sprintf(
			`permit(principal, action == Action::"call_tool", resource == Tool::%q);`, tool)
	})
	to, err := New(Config{
		Run: run, Backend: backend,
		LoginDir: folder(t, map[string]string{
			runconfig.CAFile: string(issuer.Bundle()), runconfig.ClientSecretFile: "secret",
		}),
		KeysDir: folder(t, map[string]string{runconfig.SessionKey: strings.Repeat("k", 32)}),
	})
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{issuer: issuer, path: path}
	if g.config, g.login, err = to.Proxy(slog.New(log)); err != nil {
		t.Fatal(err)
	}
	g.token = issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, oidctest.Object{
		"iss": issuer.URL, "sub": "ann", "aud": resource, "exp": time.Now().Unix() + 600, "scope": "tools",
	})
	return g
}

// toolsOf is a guest before tools of its own, of which its callers may call one.
func toolsOf(t *testing.T, issuer *oidctest.Issuer, path, tool string) *guest {
	t.Helper()
	return newGuest(t, issuer, path, tools(t, path), tool, slog.DiscardHandler)
}

// Two servers in one process share neither keys nor policies, sessions nor callers.
func TestNothingOfATargetReachesAnother(t *testing.T) {
	one, two := toolsOf(t, oidctest.New(t), "/one", "add"), toolsOf(t, oidctest.New(t), "/two/mcp", "drop")
	same := toolsOf(t, one.issuer, "/same", "add") // its callers are those of the first one
	front := proxy.New(proxy.Process{Log: slog.New(slog.DiscardHandler)},
		map[string]proxy.Config{one.path: one.config, two.path: two.config, same.path: same.config})
	server := httptest.NewServer(oidc.Describe(one.login, two.login, same.login)(front))
	t.Cleanup(func() { pipelinetest.Stop(server) })
	send := func(method, path, token, id, body string) (status int, session, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": strings.Fields(id),
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header.Get("Mcp-Session-Id"), string(data)
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	call := func(tool string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + tool + `"}}`
	}
	sessions := map[*guest]string{}
	for _, at := range []*guest{one, two, same} {
		status, id, text := send(http.MethodPost, at.path, at.token, "", hello)
		if status != http.StatusOK || id == "" || !strings.Contains(text, `"name":"`+at.path+`"`) {
			t.Fatalf("%s: a session begins with HTTP %d, %q and %s", at.path, status, id, text)
		}
		sessions[at] = id
	}
	for name, tc := range map[string]struct {
		to, of, session *guest
		tool            string
		status          int
		says            string
	}{
		"a tool that the first one's policies permit":  {one, one, one, "add", 200, `"text":"add of /one"`},
		"a tool that the other one's policies permit":  {one, one, one, "drop", 200, `NotPermitted: Client::\"ann\" may not call tool \"drop\"`},
		"a tool that the second one's policies permit": {two, two, two, "drop", 200, `"text":"drop of /two/mcp"`},
		"a tool that the first one's permit":           {two, two, two, "add", 200, `NotPermitted: Client::\"ann\" may not call tool \"add\"`},
		"another one's token":                          {two, one, two, "drop", 401, "NotLoggedIn"},
		"another one's session":                        {two, two, one, "drop", 404, "SessionNotFound"},
		"a session of the same caller at another":      {same, same, one, "add", 404, "SessionNotFound"},
		"the same caller's token for another":          {same, one, same, "add", 401, "NotLoggedIn"},
	} {
		status, _, text := send(http.MethodPost, tc.to.path, tc.of.token, sessions[tc.session], call(tc.tool))
		if status != tc.status || !strings.Contains(text, tc.says) {
			t.Errorf("%s: HTTP %d with %s, want %d with %s", name, status, text, tc.status, tc.says)
		}
	}
	for path, issuer := range map[string]string{
		one.path: one.issuer.URL, two.path: two.issuer.URL, "/elsewhere": one.issuer.URL, "": one.issuer.URL,
	} {
		_, _, text := send(http.MethodGet, "/.well-known/oauth-protected-resource"+path, "", "", "")
		if !strings.Contains(text, `"authorization_servers":["`+issuer+`"]`) {
			t.Errorf("the metadata at %q: %s", path, text)
		}
	}
	if status, _, text := send(http.MethodPost, "/two", two.token, "", hello); status != http.StatusNotFound ||
		!strings.Contains(text, "the MCP endpoint is at /one, /same, /two/mcp") {
		t.Errorf("at no target's path: HTTP %d with %s", status, text)
	}
}

// Nothing is decided about a call over its caller's share, and nothing audited.
func TestACallOverItsShareHasNoLineInTheAuditLog(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop"}}`
	for most, want := range map[int]struct {
		says, retry string
		lines       int
	}{1: {"NotPermitted", "", 1}, 0: {"TooManyCalls", "1", 0}} {
		var log bytes.Buffer
		g := newGuest(t, oidctest.New(t), "/mcp", "http://127.0.0.1:1", "add", slog.NewTextHandler(&log, nil))
		memory := budget.New(budget.Default)
		memory.Calls = share.New(most, most)
		front := proxy.New(proxy.Process{Memory: memory}, map[string]proxy.Config{g.path: g.config})
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, g.path, strings.NewReader(call))
		r.Header = http.Header{"Authorization": {"Bearer " + g.token}, "Content-Type": {"application/json"}}
		front.ServeHTTP(w, r)
		lines := strings.Count(log.String(), "msg=authorization")
		retry := w.Header().Get("Retry-After")
		if !strings.Contains(w.Body.String(), want.says) || retry != want.retry || lines != want.lines {
			t.Errorf("with room for %d: %s, again after %q, and the log has\n%s", most, w.Body, retry, &log)
		}
	}
}
