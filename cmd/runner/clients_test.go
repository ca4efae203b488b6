//go:build clients

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
	"github.com/freehold-dev/freehold/test/golden"
)

// refusal is how the runner comes to refuse.
type refusal struct {
	what string
	// called means that a client connects, and that its call is refused.
	called bool
	// login asks for tokens, and token is what clients send, of the claims of a good one and these; nil sends none.
	login bool
	token oidctest.Object
	edit  func(*runconfig.RunConfig)
	// front changes a request as a browser, or a resolver of names, would.
	front func(*http.Request)
	// path is called in place of /mcp.
	path string
	// backend answers a call, nil as a server does.
	backend http.HandlerFunc
	// away means that the backend has gone, and dark that the issuer has.
	away, dark bool
	// bytes is how long the argument of the call is.
	bytes int
}

var refusals = []refusal{
	{what: "401: no token", login: true},
	{what: "401: a token for another URL", login: true, token: oidctest.Object{"aud": "https://other.example.com/mcp"}},
	{
		what: "403: a token without a scope", login: true, token: oidctest.Object{},
		edit: func(r *runconfig.RunConfig) { r.Proxy.Authentication.Scopes = []string{"tools"} },
	},
	{
		what:  "403: the page of a foreign origin",
		front: func(r *http.Request) { r.Header.Set("Origin", "https://page.example.com") },
	},
	{what: "421: a host that is not the server's", front: func(r *http.Request) {
		r.Host = "elsewhere.example.com"
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}},
	{what: "404: another path", path: "/other"},
	{what: "503: the backend is away", away: true},
	{what: "503: the issuer's keys cannot be had", login: true, token: oidctest.Object{}, dark: true},
	{
		what: "a caller who is not on the list", login: true, token: oidctest.Object{},
		edit: func(r *runconfig.RunConfig) { r.Proxy.Authentication.Usernames = []string{"bob"} },
	},
	{what: "a call that a policy denies", called: true, edit: func(r *runconfig.RunConfig) {
		r.Proxy.Authorization = &runconfig.Authorization{Policies: []runconfig.Policy{{
			Name: "none", Text: `permit(principal, action == Action::"call_tool", resource == Tool::"other");`,
		}}}
	}},
	{what: "404: a session that is gone", called: true, backend: func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "session not found", http.StatusNotFound)
	}},
	{what: "the backend breaks a call off", called: true, backend: func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}},
	{what: "413: a call of more than 4 MiB", called: true, bytes: 5 << 20},
}

// TestEachRefusalAsClientsShowIt holds docs/maintainers/clients.md to what clients print; -update writes it.
// FREEHOLD_CLIENTS is the folder in which hack/clients.sh installs them. A client that is missing there fails.
func TestEachRefusalAsClientsShowIt(t *testing.T) {
	var table strings.Builder
	all := clientsIn(t, os.Getenv("FREEHOLD_CLIENTS"))
	for _, called := range []bool{false, true} {
		fmt.Fprintf(&table, "\n## %s\n\n", map[bool]string{false: "Where a client connects", true: "A call"}[called])
		table.WriteString("| refusal | client | shows |\n| --- | --- | --- |\n")
		for _, r := range refusals {
			if r.called != called {
				continue
			}
			what := r.what
			for _, c := range all {
				if called && !c.calls || r.bytes > 0 && c.short {
					continue
				}
				shown := r.ask(t, c)
				t.Logf("%s, %s: %s", r.what, c.name, shown)
				fmt.Fprintf(&table, "| %s | %s | %s |\n", what, c.name, shown)
				what = ""
			}
		}
	}
	golden.Part(t, "../../docs/maintainers/clients.md", "<!-- generated from cmd/runner -->\n",
		"<!-- end of what is generated -->\n", versions(all)+table.String())
}

// versions are those of the clients.
func versions(all []client) string {
	var words []string
	for _, c := range all {
		words = append(words, c.name+" "+c.version)
	}
	return "\n" + strings.Join(words, ", ") + ".\n"
}

// ask has a client meet the refusal, and returns what it shows.
func (r *refusal) ask(t *testing.T, c client) string {
	t.Helper()
	backend := httptest.NewServer(r.server())
	defer func() { backend.CloseClientConnections(); backend.Close() }()
	var proxy *url.URL
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = proxy.Scheme, proxy.Host, p.In.Host
			if r.front != nil {
				r.front(p.Out)
			}
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	defer func() { front.CloseClientConnections(); front.Close() }()
	issuer, login := r.issuer(t)
	run := sample(t, func(run *runconfig.RunConfig) {
		if r.login {
			run.Proxy.Authentication = &runconfig.Authentication{
				Issuer: issuer.URL, Algorithms: []string{"RS256"}, UsernameClaim: "sub",
				CABundle: &runconfig.Key{Name: "ca", Key: "ca.crt"}, Resource: front.URL + "/mcp",
				Audiences: []string{front.URL + "/mcp"},
			}
		}
		if r.edit != nil {
			r.edit(run)
		}
	})
	p := start(t, run, backend.URL, "--login="+login)
	p.await("it reaches the backend", func() bool { return r.dark || p.get("/readyz") == http.StatusOK })
	if proxy, _ = url.Parse("http://" + p.calls); r.away {
		backend.Listener.Close()
		backend.CloseClientConnections()
	}
	e := endpoint{url: front.URL + "/mcp", ca: filepath.Join(login, runconfig.CAFile), bytes: r.bytes, home: t.TempDir()}
	if r.path != "" {
		e.url = front.URL + r.path
	}
	if r.token != nil {
		e.token = issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, oidctest.Object{
			"iss": issuer.URL, "sub": "ann", "aud": front.URL + "/mcp", "exp": time.Now().Unix() + 600,
		}.With(r.token))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	said := c.ask(ctx, e)
	if ctx.Err() != nil {
		t.Errorf("%s, %s: it has not ended within %s", r.what, c.name, patience)
	}
	return shown(said, map[string]string{
		front.URL: "URL", strings.TrimPrefix(front.URL, "http://"): "HOST", e.home: "HOME", issuer.URL: "ISSUER",
	})
}

// issuer is one whose document says what clients look for, without registration, and the folder of its certificate.
func (r *refusal) issuer(t *testing.T) (*oidctest.Issuer, string) {
	t.Helper()
	issuer, login := oidctest.New(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(login, runconfig.CAFile), issuer.Bundle(), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := issuer.Config.Handler
	issuer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/.well-known/") {
			keys.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys", "authorization_endpoint": issuer.URL + "/authorize",
			"token_endpoint": issuer.URL + "/token", "response_types_supported": []string{"code"},
			"code_challenge_methods_supported": []string{"S256"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	issuer.Down.Store(r.dark)
	return issuer, login
}

// server is an MCP server with the tool "say".
func (r *refusal) server() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "say"}, func(
		context.Context, *mcp.CallToolRequest, words,
	) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "said"}}}, nil, nil
	})
	serve := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if r.backend != nil && strings.Contains(string(body), `"tools/call"`) {
			r.backend(w, request)
			return
		}
		request.Body = io.NopCloser(strings.NewReader(string(body)))
		serve.ServeHTTP(w, request)
	})
}

type words struct {
	Words string `json:"words"`
}
