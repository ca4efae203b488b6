//go:build clients

package main

import (
	"cmp"
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
	// crowd has filled a bound before the client comes, or before its call.
	crowd func() *crowd
	// sessions is how many a bridge has, which is in the backend's place then.
	sessions int
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
	{what: "503: more sessions than a bridge has (`Busy`)", sessions: 1, crowd: guests},
	{
		what: "503: more calls than a caller may have (`TooManyCalls`)", login: true, token: oidctest.Object{},
		crowd: beginners,
	},
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
	{what: "more calls than a bridge takes (`Busy`)", called: true, sessions: 10, crowd: callers},
	{
		what: "more calls than a caller may have (`TooManyCalls`)", called: true, login: true, token: oidctest.Object{},
		crowd: beginners,
	},
	{what: "413: a call of more than 4 MiB", called: true, bytes: 5 << 20},
}

// TestEachRefusalAsClientsShowIt holds docs/maintainers/clients.md to what clients print; -update writes it.
// FREEHOLD_CLIENTS is the folder in which hack/clients.sh installs them. A client that is missing there fails.
func TestEachRefusalAsClientsShowIt(t *testing.T) {
	var table strings.Builder
	whole := true
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
				asked := false
				t.Run(r.what+"/"+c.name, func(t *testing.T) {
					asked = true
					shown := r.ask(t, c)
					t.Log(shown)
					fmt.Fprintf(&table, "| %s | %s | %s |\n", what, c.name, shown)
					what = ""
				})
				whole = whole && asked
			}
		}
	}
	if !whole { // -run names some
		return
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
	s := r.stage(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	said := c.ask(ctx, s.endpoint)
	if ctx.Err() != nil {
		t.Errorf("it has not ended within %s", patience)
	}
	return shown(said, s.names())
}

// stage is a proxy of the runner's own program, with all that is before and behind it.
type stage struct {
	front  *httptest.Server
	issuer *oidctest.Issuer
	endpoint
}

// names are the words for what varies.
func (s *stage) names() map[string]string {
	return map[string]string{
		s.front.URL: "URL", strings.TrimPrefix(s.front.URL, "http://"): "HOST", s.home: "HOME", s.issuer.URL: "ISSUER",
	}
}

// stage starts it.
func (r *refusal) stage(t *testing.T) *stage {
	t.Helper()
	backend := httptest.NewServer(r.server())
	t.Cleanup(func() { backend.CloseClientConnections(); backend.Close() })
	var proxy *url.URL
	var before http.Handler = &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = proxy.Scheme, proxy.Host, p.In.Host
			if r.front != nil {
				r.front(p.Out)
			}
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	if r.crowd != nil {
		before = r.crowd().before(t, r.called, func() string { return proxy.Host }, before)
	}
	front := httptest.NewServer(before)
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	issuer, login := r.issuer(t)
	run := sample(t, func(run *runconfig.RunConfig) {
		if r.login {
			run.Proxy.Authentication = &runconfig.Authentication{
				Issuer: issuer.URL, Algorithms: []string{"RS256"}, UsernameClaim: "sub",
				CABundle: &runconfig.Key{Name: "ca", Key: "ca.crt"}, Resource: front.URL + "/mcp",
				Audiences: []string{front.URL + "/mcp"},
			}
		}
		if r.sessions > 0 {
			run.Backend.Transport, run.Backend.Bridge = "stdio", &runconfig.Bridge{Image: "runner", Sessions: 1}
		}
		if r.edit != nil {
			r.edit(run)
		}
	})
	at := backend.URL
	if r.sessions > 0 {
		at = bridge(t, run, r.sessions)
	}
	p := start(t, run, at, "--login="+login, tightMemory)
	p.await("it reaches the backend", func() bool { return r.dark || p.get("/readyz") == http.StatusOK })
	if proxy, _ = url.Parse("http://" + p.calls); r.away {
		backend.Listener.Close()
		backend.CloseClientConnections()
	}
	e := endpoint{
		url: front.URL + cmp.Or(r.path, "/mcp"), ca: filepath.Join(login, runconfig.CAFile),
		bytes: r.bytes, home: t.TempDir(),
	}
	if r.token != nil {
		e.token = issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, oidctest.Object{
			"iss": issuer.URL, "sub": "ann", "aud": front.URL + "/mcp", "exp": time.Now().Unix() + 600,
		}.With(r.token))
	}
	return &stage{front, issuer, e}
}

// issuer is one whose document says what clients look for, without registration, and the folder of its certificate.
func (r *refusal) issuer(t *testing.T) (*oidctest.Issuer, string) {
	t.Helper()
	issuer, login := oidctest.New(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(login, runconfig.CAFile), certify(t, issuer), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := issuer.Config.Handler
	people := logsIn(issuer, t)
	issuer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/authorize", r.URL.Path == "/token":
			people.ServeHTTP(w, r)
			return
		case !strings.Contains(r.URL.Path, "/.well-known/"):
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
		if strings.Contains(string(body), crowded) {
			<-request.Context().Done()
			return
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
