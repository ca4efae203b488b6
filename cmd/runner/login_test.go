package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
)

// The runner's own program, an issuer that it does not know before, and policies. What they decide is tested in
// internal/target.
func TestALoginStandsBeforeThePolicies(t *testing.T) {
	const endpoint = "https://mcp.example.com/echo/mcp"
	issuer := oidctest.New(t)
	login := t.TempDir()
	if err := os.WriteFile(filepath.Join(login, runconfig.CAFile), issuer.Bundle(), 0o600); err != nil {
		t.Fatal(err)
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), "tools/call") {
			w.WriteHeader(http.StatusUnauthorized) // to the runner's own questions, which is MCP enough
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	t.Cleanup(backend.Close)
	p := start(t, sample(t, func(r *runconfig.RunConfig) {
		r.Proxy.Authentication = &runconfig.Authentication{
			Issuer: issuer.URL, Algorithms: []string{"RS256"}, UsernameClaim: "sub",
			CABundle: &runconfig.Key{Name: "ca", Key: "ca.crt"}, Resource: endpoint, Audiences: []string{endpoint},
		}
		r.Proxy.Authorization = &runconfig.Authorization{Policies: []runconfig.Policy{{
			Name: "add", Text: `permit(principal, action == Action::"call_tool", resource == Tool::"add");`,
		}}}
	}), backend.URL, "--login="+login)
	p.await("it reaches the backend without a token", func() bool { return p.get("/readyz") == http.StatusOK })
	token := issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, oidctest.Object{
		"iss": issuer.URL, "sub": "ann", "aud": endpoint, "exp": time.Now().Unix() + 600,
	})
	for _, tc := range []struct{ token, tool, says string }{
		{"none", "add", "NotLoggedIn"}, {token, "drop", "NotPermitted"}, {token, "add", `"result":{}`},
	} {
		answer := p.ask(http.MethodPost, "/mcp", tc.token,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tc.tool+`"}}`)
		if !strings.Contains(answer, tc.says) {
			t.Errorf("a call of %s gets %s, want %s", tc.tool, answer, tc.says)
		}
	}
	metadata := p.ask(http.MethodGet, "/.well-known/oauth-protected-resource/echo/mcp", "none", "")
	if !strings.Contains(metadata, `"authorization_servers":["`+issuer.URL+`"]`) {
		t.Errorf("the metadata: %s", metadata)
	}
	for _, line := range []string{
		`"msg":"authentication","namespace":"team","server":"echo","generation":7,"client":"127.0.0.1:`,
		`"subject":"ann","issuer":"` + issuer.URL + `","method":"tools/call","name":"drop","decision":"deny"`,
	} {
		if said := p.said(); !strings.Contains(said, line) || strings.Contains(said, token) {
			t.Errorf("%s is not in the log, or a token is:\n%s", line, said)
		}
	}
}

// ask is the answer to a request with a token.
func (p *process) ask(method, path, token, body string) string {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.calls+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
