package proxy

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
)

// beforeRemote is a proxy in front of the first of the pods as of a server elsewhere, of which
// content tells where it is.
func (b *backends) beforeRemote(secret, content string) *bench {
	b.t.Helper()
	to, err := remote.New(runconfig.Remote{URL: b.pods[0].URL + "/mcp", AllowedNetworks: []string{"127.0.0.0/8"}}, "")
	if err != nil {
		b.t.Fatal(err)
	}
	sealing := func(c *Config) { c.Upstream = Elsewhere(to); c.Upstream.Hash = content }
	config := b.sealed(secret, sealing)
	return front(b.t, config, b.pods[0].URL)
}

func TestASessionOfAServerElsewhereIsItsCallersAtEachProxy(t *testing.T) {
	b, secret := newBackends(t, 1), secretOf(t)
	far := b.pods[0]
	proxies := []*bench{b.beforeRemote(secret, "here"), b.beforeRemote(secret, "here")}
	id, _ := proxies[0].open("X-Caller", "ann")
	for i, proxy := range proxies {
		response := proxy.in(id, http.MethodPost, "hello", "X-Caller", "ann")
		got := answered(t, response)
		if !far.ids[got["own"]] || strings.Contains(id, got["own"]) || response.Header.Get(protocol.HeaderSession) != id {
			t.Errorf("proxy %d asked for %q, and answers for %q; the client has %q", i, got["own"],
				response.Header.Get(protocol.HeaderSession), id)
		}
	}
	own := answered(t, proxies[1].in(id, http.MethodPost, "hello", "X-Caller", "ann"))["own"]
	server := b.before(secret)
	ofPod, _ := server.open("X-Caller", "ann")
	for name, tc := range map[string]struct {
		at         *bench
		id, caller string
	}{
		"another caller":                 {proxies[0], id, "bob"},
		"nobody":                         {proxies[0], id, ""},
		"the server's own id":            {proxies[0], own, "ann"},
		"a long id":                      {proxies[0], strings.Repeat("x", 15<<10), "ann"},
		"another url":                    {b.beforeRemote(secret, "elsewhere"), id, "ann"},
		"that of a pod":                  {proxies[0], ofPod, "ann"},
		"at a proxy with pods":           {server, id, "ann"},
		"another key":                    {b.beforeRemote(secretOf(t, "o"), "here"), id, "ann"},
		"an id that somebody has edited": {proxies[0], strings.ToUpper(id), "ann"},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			response := tc.at.in(tc.id, method, "hello", "X-Caller", tc.caller)
			if body := text(t, response); response.StatusCode != http.StatusNotFound ||
				!strings.Contains(body, "SessionNotFound") {
				t.Errorf("%s, %s: HTTP %d with %s", name, method, response.StatusCode, body)
			}
		}
	}
	if far.stray != 0 {
		t.Errorf("the server got %d requests of others", far.stray)
	}
}

// A server that is down has not forgotten its sessions.
func TestAServerElsewhereThatIsDownEndsNoSession(t *testing.T) {
	b := newBackends(t, 1)
	f := b.beforeRemote(secretOf(t), "here")
	id, _ := f.open()
	b.stop(b.pods[0])
	response := f.in(id, http.MethodPost, "hello")
	if body := text(t, response); response.StatusCode != http.StatusBadGateway ||
		!strings.Contains(body, "BackendUnreachable") {
		t.Errorf("HTTP %d with %s", response.StatusCode, body)
	}
}

// Without a key nothing goes on that a caller could not keep to itself.
func TestWithoutAKeyNoSessionOfAServerElsewhereBegins(t *testing.T) {
	b := newBackends(t, 1)
	f := b.beforeRemote(filepath.Join(t.TempDir(), "none"), "here")
	response := f.call(http.MethodPost, "/mcp", initialize)
	if body := text(t, response); response.StatusCode != http.StatusServiceUnavailable ||
		response.Header.Get(protocol.HeaderSession) != "" {
		t.Errorf("HTTP %d with %s", response.StatusCode, body)
	}
	if got := answered(t, f.call(http.MethodPost, "/mcp", "hello")); got["body"] != "hello" {
		t.Errorf("a call without a session: %v", got)
	}
}

// A backend keeps no session whose id no client gets: one would begin with each try, for as long as there is no key.
func TestASessionThatCannotBeSealedIsEnded(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, before := range map[string]func(*backends) *bench{
		"pods":      func(b *backends) *bench { return b.before(none) },
		"elsewhere": func(b *backends) *bench { return b.beforeRemote(none, "here") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackends(t, 3)
			f := before(b)
			for range 6 {
				if response := f.call(http.MethodPost, "/mcp", initialize); response.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("HTTP %d", response.StatusCode)
				}
			}
			begun := 0
			for _, p := range b.pods {
				p.mu.Lock()
				begun += p.begun
				if len(p.ids) != 0 || p.stray != 0 {
					t.Errorf("%s has %d sessions, and was asked %d times for those of others", p.address, len(p.ids), p.stray)
				}
				p.mu.Unlock()
			}
			if begun != 6 {
				t.Errorf("%d sessions have begun", begun)
			}
		})
	}
}
