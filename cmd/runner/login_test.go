package main

import (
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
)

const endpoint = "https://mcp.example.com/echo/mcp"

// guardedBy asks for a token of an issuer, and lets one team call one tool.
func guardedBy(issuer string) func(*runconfig.RunConfig) {
	return func(r *runconfig.RunConfig) {
		r.Proxy.Authentication = &runconfig.Authentication{
			Issuer: issuer, Algorithms: []string{"RS256"}, UsernameClaim: "sub",
			Resource: endpoint, Audiences: []string{endpoint}, Scopes: []string{"tools"},
		}
		r.Proxy.Authorization = &runconfig.Authorization{Policies: []runconfig.Policy{{
			Name: "team", Text: `permit(principal, action == Action::"call_tool", resource == Tool::"add") when { principal.claim_team == "blue" };`,
		}}}
	}
}

// The runner's own program, an issuer that it does not know before, and policies
// that look at who calls.
func TestALoginStandsBeforeThePolicies(t *testing.T) {
	issuer := oidctest.New(t)
	var got http.Header
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
	roots := text(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw})))
	p := start(t, sample(t, guardedBy(issuer.URL)), backend.URL, "SSL_CERT_FILE="+roots)
	p.await("it reaches the backend without a token", func() bool { return p.get("/readyz") == http.StatusOK })

	now := time.Now()
	claims := oidctest.Object{"iss": issuer.URL, "sub": "ann", "aud": endpoint, "exp": now.Unix() + 600, "scope": "tools", "team": "blue"}
	token := func(change oidctest.Object) string {
		return "Bearer " + issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, claims.With(change))
	}
	where := `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/echo/mcp", scope="tools"`
	for name, tc := range map[string]struct {
		authorization, tool string
		status              int
		says, challenge     string
	}{
		"no token":           {"", "add", 401, "NotLoggedIn: no token", where},
		"for another server": {token(oidctest.Object{"aud": "https://other"}), "add", 401, "NotLoggedIn: the token is for another audience", `error="invalid_token"`},
		"without the scope":  {token(oidctest.Object{"scope": "other"}), "add", 403, "NotLoggedIn: the token lacks a scope", `error="insufficient_scope"`},
		"of another team":    {token(oidctest.Object{"team": "red"}), "add", 403, `Client::\"ann\" may not call tool \"add\"`, ""},
		"for another tool":   {token(nil), "drop", 403, `Client::\"ann\" may not call tool \"drop\"`, ""},
		"permitted":          {token(nil), "add", 200, `"result"`, ""},
	} {
		got = nil
		response, body := p.callTool(tc.authorization, tc.tool)
		if response.StatusCode != tc.status || !strings.Contains(body, tc.says) {
			t.Errorf("%s: %d %s, want %d with %s", name, response.StatusCode, body, tc.status, tc.says)
		}
		if challenge := response.Header.Get("WWW-Authenticate"); !strings.Contains(challenge, tc.challenge) || tc.challenge == "" && challenge != "" {
			t.Errorf("%s: challenged with %q", name, challenge)
		}
		if reached := got != nil; reached != (tc.status == 200) || got.Get("Authorization") != "" {
			t.Errorf("%s: the backend got %v", name, got)
		}
	}
	p.describes(issuer.URL)
	if said := p.said(); strings.Contains(said, "eyJ") {
		t.Errorf("a token is in the log:\n%s", said)
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

// describes demands that the metadata names the issuer, to everybody.
func (p *process) describes(issuer string) {
	p.t.Helper()
	response, err := http.Get("http://" + p.calls + "/.well-known/oauth-protected-resource/echo/mcp")
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"authorization_servers":["`+issuer+`"]`) {
		p.t.Errorf("the metadata: %d %s, %v", response.StatusCode, body, err)
	}
}

func TestTheClusterIsAskedForItsKeys(t *testing.T) {
	issuer := oidctest.New(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openid/v1/jwks" {
			r.URL.Path = "/keys"
		}
		issuer.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(api.Close)
	t.Setenv("KUBECONFIG", text(t, `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],`+
		`"clusters":[{"name":"x","cluster":{"server":"`+api.URL+`"}}]}`))
	who, err := login(&runconfig.Authentication{
		Algorithms: []string{"RS256"}, UsernameClaim: "sub", Usernames: []string{"system:serviceaccount:a:b"},
		Resource: endpoint, Audiences: []string{endpoint},
	}, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h := who.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for subject, want := range map[string]int{"system:serviceaccount:a:b": 200, "system:serviceaccount:a:c": 403} {
		token := issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, oidctest.Object{"iss": issuer.URL, "sub": subject, "aud": []string{endpoint}, "exp": time.Now().Unix() + 60})
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d %s, want %d", subject, w.Code, w.Body, want)
		}
	}
}
