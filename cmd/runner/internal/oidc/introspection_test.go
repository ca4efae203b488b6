package oidc

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
)

// asking makes a login ask the issuer about tokens. It returns the file of the
// password, too.
func asking(t *testing.T, p *oidctest.Issuer) (edit func(*Config), secret string) {
	t.Helper()
	secret = filepath.Join(t.TempDir(), "client-secret")
	write(t, secret, "secret\n")
	return func(c *Config) {
		c.Introspection = &Introspection{URL: p.URL + "/introspect", ClientID: "mcp:proxy", SecretFile: secret}
	}, secret
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// told is a token, what the issuer tells of it, and the answer to a call with it.
type told struct {
	token  string
	told   any
	edit   func(*Config)
	status int
	want   string
	asked  int32
}

func tellings(t *testing.T, p *oidctest.Issuer) map[string]told {
	t.Helper()
	elsewhere := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect is followed") }))
	t.Cleanup(elsewhere.Close)
	ask, secret := asking(t, p)
	claims := oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60, "scope": "tools:call"}
	keyless := func(c *Config) {
		ask(c)
		discovery := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"issuer":%q}`, p.URL) }))
		t.Cleanup(discovery.Close)
		c.Discovery = discovery.URL
	}
	none := p.Token(t, oidctest.Object{"alg": "none"}, claims)
	signed := p.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, claims)
	return map[string]told{
		"active":          {"", claims, ask, 200, `ann with ""`, 1},
		"without issuer":  {"", claims.With(oidctest.Object{"iss": nil}), ask, 200, "ann", 1},
		"without expiry":  {"", claims.With(oidctest.Object{"exp": nil}), ask, 200, "ann", 1},
		"unknown":         {"", nil, ask, 401, "not active", 1},
		"expired":         {"", claims.With(oidctest.Object{"exp": clock.Unix() - 10}), ask, 401, "expired", 1},
		"early":           {"", claims.With(oidctest.Object{"nbf": clock.Unix() + 11}), ask, 401, "not valid yet", 1},
		"wrong audience":  {"", claims.With(oidctest.Object{"aud": "https://other"}), ask, 401, "audience", 1},
		"no audience":     {"", claims.With(oidctest.Object{"aud": nil}), ask, 401, "audience", 1},
		"wrong issuer":    {"", claims.With(oidctest.Object{"iss": "https://other"}), ask, 401, "another issuer", 1},
		"an empty issuer": {"", claims.With(oidctest.Object{"iss": ""}), ask, 401, "another issuer", 1},
		"no subject":      {"", claims.With(oidctest.Object{"sub": nil}), ask, 401, "no claim sub", 1},
		"lacks a scope":   {"", claims, func(c *Config) { ask(c); c.Scopes = []string{"admin"} }, 403, "admin", 1},
		"active as text":  {"", `{"active":"true","sub":"ann"}`, ask, 503, "does not tell", 1},
		"active and not":  {"", `{"active":true,"active":false}`, ask, 503, "does not tell", 1},
		"no JSON":         {"", "back soon", ask, 503, "does not tell", 1},
		"too long": {
			"", `{"active":true,"a":"` + strings.Repeat("a", maxAnswer) + `"}`, ask, 503,
			"does not tell", 1,
		},
		"of a wrong client": {
			"", claims, func(c *Config) { ask(c); c.Introspection.ClientID = "x" }, 503,
			"does not tell", 1,
		},
		"without the password": {
			"", claims, func(c *Config) { ask(c); c.Introspection.SecretFile = secret + "x" }, 503,
			"does not tell", 0,
		},
		"elsewhere": {
			"", claims,
			func(c *Config) { ask(c); c.Introspection.URL = redirecting(t, elsewhere.URL) }, 503, "does not tell", 0,
		},
		"a JWT":                  {signed, nil, ask, 200, "ann", 0},
		"alg none":               {none, claims, ask, 401, "not a JWT", 0},
		"a JWT of one keyless":   {signed, claims, keyless, 200, "ann", 1},
		"alg none, one keyless":  {none, nil, keyless, 401, "not active", 1},
		"opaque, nothing to ask": {"", claims, nil, 401, "not a JWT", 0},
	}
}

func TestTokensThatTheIssuerTellsOf(t *testing.T) {
	p := oidctest.New(t)
	for name, tc := range tellings(t, p) {
		t.Run(name, func(t *testing.T) {
			if tc.token == "" {
				tc.token = "opaque " + name
			}
			if tc.told != nil {
				p.Tokens.Store(tc.token, tc.told)
				defer p.Tokens.Delete(tc.token)
			}
			before := p.Asked.Load()
			got := send(front(p, at0, tc.edit), http.MethodPost, "/mcp", withToken(tc.token))
			if got.Code != tc.status || !strings.Contains(got.Body.String(), tc.want) {
				t.Errorf("got %d %s, want %d with %q", got.Code, got.Body, tc.status, tc.want)
			}
			if asked := p.Asked.Load() - before; asked != tc.asked {
				t.Errorf("the issuer was asked %d times, want %d", asked, tc.asked)
			}
		})
	}
}

func redirecting(t *testing.T, to string) string {
	t.Helper()
	s := httptest.NewServer(http.RedirectHandler(to, http.StatusTemporaryRedirect))
	t.Cleanup(s.Close)
	return s.URL
}

func TestWhatTheIssuerTellsHoldsAMinute(t *testing.T) {
	p, now := oidctest.New(t), clock
	ask, secret := asking(t, p)
	h := front(p, func() time.Time { return now }, ask)
	p.Tokens.Store("one", oidctest.Object{"sub": "ann", "aud": resource, "exp": clock.Unix() + 600})
	step := func(what, token string, status int, asked int32) {
		t.Helper()
		before := p.Asked.Load()
		got := send(h, http.MethodPost, "/mcp", withToken(token))
		if more := p.Asked.Load() - before; got.Code != status || more != asked {
			t.Errorf("%s: %d after %d questions, want %d after %d", what, got.Code, more, status, asked)
		}
	}
	step("new", "one", 200, 1)
	now = now.Add(toldAge - 1)
	step("known", "one", 200, 0)
	p.Down.Store(true)
	step("down, known", "one", 200, 0)
	step("down, new", "two", 503, 0)
	now = now.Add(1)
	step("down, a minute old", "one", 503, 0)
	p.Down.Store(false)
	step("up", "one", 200, 1)
	step("refused", "two", 401, 1)
	p.Tokens.Store("two", oidctest.Object{"sub": "bob", "aud": resource})
	step("still refused", "two", 401, 0)
	now = now.Add(refusedAge)
	step("let in", "two", 200, 1)
	now = now.Add(toldAge)
	p.Tokens.Delete("one")
	step("withdrawn", "one", 401, 1)
	p.Password.Store("a new one: 100%")
	step("the old password", "two", 503, 1)
	write(t, secret, "a new one: 100%")
	step("the new password", "two", 200, 1)
}

// Callers whose tokens were valid before do not wait behind tokens that are made up,
// and callers with one token ask once. On a machine that is busy a question may come too late.
func TestAFloodOfTokensHoldsUpNobodyWhoIsKnown(t *testing.T) {
	p, now := oidctest.New(t), clock
	ask, _ := asking(t, p)
	h := front(p, func() time.Time { return now }, ask)
	call := func(token string) int { return send(h, http.MethodPost, "/mcp", withToken(token)).Code }
	p.Tokens.Store("known", oidctest.Object{"sub": "ann", "aud": resource})
	if got := call("known"); got != 200 {
		t.Fatalf("%d", got)
	}
	now = now.Add(toldAge)
	held := make(chan struct{})
	p.Held.Store(&held)
	var flood sync.WaitGroup
	var refused, late atomic.Int32
	const tokens = 3 * asked
	for n := range tokens {
		flood.Go(func() {
			switch sendFrom(h, fmt.Sprint("192.0.2.", n%2), fmt.Sprint("made up ", n)) {
			case http.StatusUnauthorized:
				refused.Add(1)
			case http.StatusServiceUnavailable:
				late.Add(1)
			}
		})
		flood.Go(func() { call("made up 0") })
	}
	for p.Busy.Load() < asked {
		time.Sleep(time.Millisecond)
	}
	if got := call("known"); got != 200 {
		t.Errorf("a token that was valid before: %d", got)
	}
	if busy := p.Busy.Load(); busy > asked {
		t.Errorf("%d questions at once", busy)
	}
	close(held)
	flood.Wait()
	questions := p.Asked.Load() - 2
	if questions < refused.Load() || questions > tokens+late.Load() || refused.Load()+late.Load() != tokens {
		t.Errorf("%d questions about %d tokens: %d are refused, %d are late", questions, tokens, refused.Load(), late.Load())
	}
}
