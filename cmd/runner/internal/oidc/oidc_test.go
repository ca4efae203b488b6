package oidc

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
)

const resource = "https://mcp.example.com/echo/mcp"

// denied stands for what a caller gets who is not among those who may call.
const denied = 450

var clock = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// front is the middleware before a handler that says who called.
func front(p *oidctest.Issuer, now func() time.Time, edit func(*Config)) http.Handler {
	u, err := url.Parse(resource)
	if err != nil {
		panic(err)
	}
	config := Config{
		Issuer: p.URL, Discovery: p.URL + "/.well-known/openid-configuration", Client: p.Client(),
		Algorithms: []string{"RS256", "ES256"}, Audiences: []string{resource}, Skew: 10 * time.Second, Resource: u, Now: now,
		Refuse: func(w http.ResponseWriter, status int, message string) { http.Error(w, message, status) },
		Deny: func(w http.ResponseWriter, _ *http.Request, name string) int {
			http.Error(w, name+" is not listed", denied)
			return denied
		},
	}
	if edit != nil {
		edit(&config)
	}
	login := New(config)
	guard := login.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := pipeline.Of(r.Context()).Caller()
		w.Header().Set("Content-Type", r.Header.Get("Accept"))
		fmt.Fprintf(w, "%s with %q", strings.Join(append([]string{caller.Subject}, caller.Groups...), " "),
			r.Header.Get("Authorization"))
	}))
	return Describe(login)(pipelinetest.Begin(guard, budget.New(budget.Default), nil))
}

func send(h http.Handler, method, target string, header http.Header) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, target, http.NoBody), httptest.NewRecorder()
	for name, values := range header {
		r.Header[name] = values
	}
	h.ServeHTTP(w, r)
	return w
}

func withToken(tokens ...string) http.Header {
	h := http.Header{}
	for _, token := range tokens {
		h.Add("Authorization", "Bearer "+token)
	}
	return h
}

func at0() time.Time { return clock }

func TestWhatIsSaidOfATokenThatIsNotTaken(t *testing.T) {
	p := oidctest.New(t)
	rs := oidctest.Object{"alg": "RS256", "kid": "one"}
	claims := oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60, "scope": "tools:call"}
	lacking := send(front(p, at0, func(c *Config) { c.Scopes = []string{"tools:call", "admin"} }), http.MethodPost, "/mcp",
		withToken(p.Token(t, rs, claims)))
	if challenge := lacking.Header().Get("WWW-Authenticate"); !strings.Contains(challenge, `error="insufficient_scope"`) ||
		!strings.Contains(challenge, `scope="tools:call admin"`) {
		t.Errorf("a token without a scope is challenged with %q", challenge)
	}
}

func TestMetadataTellsWhereToLogIn(t *testing.T) {
	p := oidctest.New(t)
	h := front(p, at0, func(c *Config) { c.Scopes = []string{"a", "b"} })
	want := fmt.Sprintf(
		`{"resource":%q,"authorization_servers":[%q],"scopes_supported":["a","b"],"bearer_methods_supported":["header"]}`,
		resource, p.URL)
	for _, path := range []string{wellKnown, wellKnown + "/mcp", wellKnown + "/echo/mcp"} {
		if got := send(h, http.MethodGet, path, nil); got.Code != 200 || got.Body.String() != want {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
	if got := send(h, http.MethodPost, wellKnown, nil); got.Code != 405 {
		t.Errorf("POST: %d", got.Code)
	}
	if got := send(h, http.MethodOptions, wellKnown, nil); got.Code != 204 ||
		got.Header().Get("Access-Control-Allow-Headers") != "MCP-Protocol-Version" {
		t.Errorf("a preflight for the metadata: %d %v", got.Code, got.Header())
	}
	for _, header := range []http.Header{nil, {"Access-Control-Request-Method": {"POST"}, "Origin": {"https://a"}}} {
		if got := send(h, http.MethodOptions, "/mcp", header); got.Code != 401 {
			t.Errorf("OPTIONS with %v: %d", header, got.Code) // the proxy answers a preflight before
		}
	}
}

// A provider may make its key anew at each start, and give it the name of the one before, or none.
func TestAKeyThatIsReplacedUnderItsName(t *testing.T) {
	rogue := oidctest.New(t)
	for _, kid := range []string{"one", ""} {
		p := oidctest.New(t)
		p.Kid.Store(kid)
		h := front(p, at0, nil)
		call := func() int {
			header := oidctest.Object{"alg": "RS256"}
			if kid != "" {
				header["kid"] = kid
			}
			claims := oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60, "jti": rand.Text()}
			return send(h, http.MethodPost, "/mcp", withToken(p.Token(t, header, claims))).Code
		}
		if got := call(); got != 200 {
			t.Errorf("kid %q: %d", kid, got)
		}
		p.Renew(t)
		if got := call(); got != 200 || p.Fetches.Load() != 2 {
			t.Errorf("kid %q, replaced: %d after %d fetches", kid, got, p.Fetches.Load())
		}
		for range 50 {
			claims := oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60, "jti": rand.Text()}
			if got := send(h, http.MethodPost, "/mcp",
				withToken(rogue.Token(t, oidctest.Object{"alg": "RS256", "kid": kid}, claims))).Code; got != 401 {
				t.Errorf("kid %q, forged: %d", kid, got)
			}
		}
		if fetched := p.Fetches.Load(); fetched > 6 {
			t.Errorf("kid %q: 50 forged tokens made %d fetches", kid, fetched-2)
		}
	}
}

func TestKeysRotateAndOutliveTheirProvider(t *testing.T) {
	p, now := oidctest.New(t), clock
	h := front(p, func() time.Time { return now }, nil)
	call := func(kid string) int {
		claims := oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": now.Unix() + 60, "jti": rand.Text()}
		return send(h, http.MethodPost, "/mcp",
			withToken(p.Token(t, oidctest.Object{"alg": "RS256", "kid": kid}, claims))).Code
	}
	expect := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	p.Down.Store(true)
	expect("down from the start", call("one"), 503)
	p.Down.Store(false)
	expect("not asked again at once", call("one"), 503)
	now = now.Add(firstRetry)
	expect("up", call("one"), 200)
	p.Kid.Store("two")
	expect("a new key is fetched", call("two"), 200)
	expect("a withdrawn key", call("one"), 401)
	fetched := p.Fetches.Load()
	for range 50 {
		call("unknown")
	}
	if more := p.Fetches.Load() - fetched; more > 5 {
		t.Errorf("50 tokens with unknown keys made %d fetches", more)
	}
	// A page that says "back soon" with 200 is not taken for keys.
	p.Empty.Store(true)
	now = now.Add(keyAge)
	expect("an empty set, known keys", call("two"), 200)
	p.Down.Store(true)
	now = now.Add(keyRetry)
	expect("down, known keys", call("two"), 200)
	now = now.Add(keyPatience)
	expect("down for too long", call("two"), 503)
}

func TestAVerifiedTokenIsNotVerifiedAgain(t *testing.T) {
	p, now := oidctest.New(t), clock
	h := front(p, func() time.Time { return now }, nil)
	token := p.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"},
		oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60})
	expect := func(want int) {
		t.Helper()
		if got := send(h, http.MethodPost, "/mcp", withToken(token)).Code; got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	expect(200)
	p.Down.Store(true)
	now = now.Add(59 * time.Second)
	expect(200)
	now = now.Add(11 * time.Second)
	expect(401)
}

// Keys that are read over http make tokens of whoever can change them on the way.
func TestNobodyIsSentFromHTTPSToHTTP(t *testing.T) {
	p := oidctest.New(t)
	plain := httptest.NewServer(p.Config.Handler)
	t.Cleanup(plain.Close)
	p.Keys.Store(plain.URL + "/keys")
	token := p.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"},
		oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60})
	if got := send(front(p, at0, nil), http.MethodPost, "/mcp", withToken(token)); got.Code != 503 ||
		p.Fetches.Load() > 0 {
		t.Errorf("%d %s after %d fetches", got.Code, got.Body, p.Fetches.Load())
	}
}

// A call does not wait for an issuer that does not answer, once there are keys, and
// ends when its client leaves, where there are none.
func TestAnIssuerThatHangsHoldsNobodyUp(t *testing.T) {
	p, now := oidctest.New(t), clock
	h := front(p, func() time.Time { return now }, nil)
	release := make(chan struct{})
	p.Hang.Store(&release)
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	token := p.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"},
		oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60})
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			r, w := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", http.NoBody), httptest.NewRecorder()
			r.Header = withToken(token)
			if h.ServeHTTP(w, r); w.Code != 503 {
				t.Errorf("%d", w.Code)
			}
		})
	}
	began := time.Now()
	if calls.Wait(); time.Since(began) > fetchTime/2 {
		t.Errorf("50 calls waited %s", time.Since(began))
	}
}

// FuzzToken holds any header to: no panic, and nobody is let in without a
// signature.
func FuzzToken(f *testing.F) {
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"keys":[]}`)
	}))
	f.Cleanup(issuer.Close)
	p := &oidctest.Issuer{Server: issuer}
	h := front(p, at0, func(c *Config) { c.KeysURL = issuer.URL })
	for _, seed := range []string{
		"Bearer a.b.c", "bearer", "Bearer eyJhbGciOiJub25lIn0.e30.",
		"Bearer eyJhbGciOiJSUzI1NiJ9.e30.AA",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if got := send(h, http.MethodPost, "/mcp", http.Header{"Authorization": {value}}); got.Code == 200 {
			t.Errorf("%q is let in", value)
		}
	})
}
