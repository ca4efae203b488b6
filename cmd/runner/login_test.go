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
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

const endpoint = "https://mcp.example.com/echo/mcp"

// guardedBy asks for a token of an issuer, and lets one team call one tool.
func guardedBy(issuer string) func(*runconfig.RunConfig) {
	return func(r *runconfig.RunConfig) {
		r.Proxy.Authentication = &runconfig.Authentication{
			Issuer: issuer, Algorithms: []string{"RS256"}, UsernameClaim: "sub",
			CABundle: &runconfig.Key{Name: "ca", Key: "ca.crt"},
			Introspection: &runconfig.Introspection{
				URL: issuer + "/introspect", ClientID: "mcp:proxy",
				ClientSecret: runconfig.Key{Name: "s", Key: "k"},
			},
			GroupsClaim: "team", Resource: endpoint, Audiences: []string{endpoint}, Scopes: []string{"tools"},
		}
		r.Proxy.Authorization = &runconfig.Authorization{Policies: []runconfig.Policy{{
			Name: "team",
			Text: `permit(principal in Group::"blue", action == Action::"call_tool", resource == Tool::"add") when { principal.claim_team == "blue" };`,
		}}}
	}
}

// mounted is a folder with what the runner needs of an issuer.
func mounted(t *testing.T, issuer *oidctest.Issuer) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, content := range map[string]string{
		runconfig.CAFile:           string(issuer.Bundle()),
		runconfig.ClientSecretFile: "secret",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// The runner's own program, an issuer that it does not know before, and policies
// that look at who calls.
func TestALoginStandsBeforeThePolicies(t *testing.T) {
	issuer, got := oidctest.New(t), http.Header(nil)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), "tools/call") {
			w.WriteHeader(http.StatusUnauthorized) // to the runner's own questions, which is MCP enough
			return
		}
		got = r.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	t.Cleanup(backend.Close)
	p := start(t, sample(t, func(r *runconfig.RunConfig) {
		guardedBy(issuer.URL)(r)
		r.Backend.Bridge = &runconfig.Bridge{Shared: true}
	}), backend.URL, "--login="+mounted(t, issuer))
	p.await("it reaches the backend without a token", func() bool { return p.get("/readyz") == http.StatusOK })

	now := time.Now()
	claims := oidctest.Object{
		"iss": issuer.URL, "sub": "ann", "aud": endpoint, "exp": now.Unix() + 600, "scope": "tools",
		"team": "blue",
	}
	token := func(change oidctest.Object) string {
		return "Bearer " + issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, claims.With(change))
	}
	issuer.Tokens.Store("opaque", claims)
	told, where := map[string]string{},
		`resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/echo/mcp", scope="tools"`
	for name, tc := range map[string]struct {
		authorization, tool string
		status              int
		says, challenge     string
	}{
		"no token": {"", "add", 401, "NotLoggedIn: no token", where},
		"for another server": {
			token(oidctest.Object{"aud": "https://other"}), "add", 401,
			"NotLoggedIn: the token is for another audience", `error="invalid_token"`,
		},
		"without the scope": {
			token(oidctest.Object{"scope": "other"}), "add", 403, "NotLoggedIn: the token lacks a scope",
			`error="insufficient_scope"`,
		},
		"of another team": {
			token(oidctest.Object{"team": "red"}), "add", 200,
			`"text":"NotPermitted: Client::\"ann\" may not call tool \"add\"`, "",
		},
		"for another tool": {token(nil), "drop", 200, `"text":"NotPermitted: Client::\"ann\" may not call tool \"drop\"`, ""},
		"opaque":           {"Bearer opaque", "add", 200, `"result"`, ""},
		"permitted":        {token(nil), "add", 200, `"result"`, ""},
		"another caller":   {token(oidctest.Object{"sub": "bob"}), "add", 200, `"result"`, ""},
	} {
		got = nil
		response, body := p.callTool(tc.authorization, tc.tool)
		if response.StatusCode != tc.status || !strings.Contains(body, tc.says) {
			t.Errorf("%s: %d %s, want %d with %s", name, response.StatusCode, body, tc.status, tc.says)
		}
		if challenge := response.Header.Get("WWW-Authenticate"); !strings.Contains(challenge, tc.challenge) ||
			tc.challenge == "" && challenge != "" {
			t.Errorf("%s: challenged with %q", name, challenge)
		}
		if reached := got != nil; reached != (tc.says == `"result"`) || got.Get("Authorization") != "" {
			t.Errorf("%s: the backend got %v", name, got)
		}
		told[name] = got.Get(protocol.HeaderCaller)
	}
	if told["opaque"] == "" || told["opaque"] != told["permitted"] || told["opaque"] == told["another caller"] {
		t.Errorf("a bridge is told of callers %q", told)
	}
	p.keepsOut()
	p.describes(issuer.URL)
	p.audits(issuer.URL)
}

// audits demands that the log tells who was kept out and what was denied, and no
// token.
func (p *process) audits(issuer string) {
	p.t.Helper()
	said := p.said()
	if strings.Contains(said, "eyJ") || strings.Contains(said, "opaque") {
		p.t.Errorf("a token is in the log:\n%s", said)
	}
	for _, line := range []string{
		`"msg":"authentication","namespace":"team","server":"echo","generation":7,"client":"127.0.0.1:`,
		`"subject":"ann","issuer":"` + issuer + `","method":"tools/call","name":"drop","decision":"deny"`,
	} {
		if !strings.Contains(said, line) {
			p.t.Errorf("%s is not in the log:\n%s", line, said)
		}
	}
}

// callTool is the answer to a call with a header Authorization, none if it is empty.
func (p *process) callTool(authorization, tool string) (*http.Response, string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.calls+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response, string(body)
}

// keepsOut demands that none of the other methods passes without a token.
func (p *process) keepsOut() {
	p.t.Helper()
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodOptions} {
		request, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.calls+"/mcp", http.NoBody)
		if err != nil {
			p.t.Fatal(err)
		}
		request.Header.Set("Accept", "text/event-stream")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			p.t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusUnauthorized {
			p.t.Errorf("%s: %d", method, response.StatusCode)
		}
	}
}

// describes demands that the metadata names the issuer, to everybody.
func (p *process) describes(issuer string) {
	p.t.Helper()
	response, err := http.Get("http://" + p.calls + "/.well-known/oauth-protected-resource/echo/mcp")
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK ||
		!strings.Contains(string(body), `"authorization_servers":["`+issuer+`"]`) {
		p.t.Errorf("the metadata: %d %s, %v", response.StatusCode, body, err)
	}
}
