package era_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// redirecting has a backend answer at its last path alone: what comes to another one is sent to the next, with a
// status.
func redirecting(b *backend, status int, paths ...string) {
	b.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		for i, path := range paths[:len(paths)-1] {
			if r.URL.Path == path {
				w.Header().Set("Location", strings.ReplaceAll(paths[i+1], "HOST", r.Host))
				w.WriteHeader(status)
				return true
			}
		}
		return false
	})
}

// Frameworks redirect a path to the same with a slash. Clients of either era are served there, of servers of either,
// and what a client has sent is not sent twice.
func TestABackendThatIsAtAnotherPath(t *testing.T) {
	for name, paths := range map[string][]string{
		"a slash":   {"/mcp", "http://HOST/mcp/"},
		"relative":  {"/mcp", "mcp/"},
		"anywhere":  {"/mcp", "/api/v1"},
		"two steps": {"/mcp", "/a", "/b"},
	} {
		for speaks, era := range map[eras]string{legacyOnly: "legacy", modernOnly: "modern", both: "both"} {
			t.Run(name+", "+era, func(t *testing.T) {
				b := newBackend(t, speaks)
				redirecting(b, http.StatusTemporaryRedirect, paths...)
				endpoint := front(t, b)
				long := `"name":"echo","arguments":{"text":"` + strings.Repeat("x", 100<<10) + `"}`
				if status, m := send(t, endpoint, modern("1", "tools/call", long, ""),
					asModern("tools/call", "echo")...); status != http.StatusOK || m.Result == nil {
					t.Errorf("modern: HTTP %d with %+v", status, m.Error)
				}
				session := connect(t, endpoint, "2025-11-25", nil)
				if _, err := session.CallTool(t.Context(),
					&mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "a"}}); err != nil {
					t.Errorf("legacy: %v", err)
				}
				if calls := b.got("tools/call"); len(calls) != 2 {
					t.Errorf("the backend got %d calls, want 2", len(calls))
				}
			})
		}
	}
}

func TestARedirectThatIsNotFollowed(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		paths  []string
		says   string
	}{
		"moved": {
			http.StatusMovedPermanently,
			[]string{"/mcp", "/mcp/"},
			"redirects to /mcp/ (HTTP 301), which is not followed: write the path of its MCP endpoint into spec.path",
		},
		"found":     {http.StatusFound, []string{"/mcp", "/mcp/"}, "redirects to /mcp/ (HTTP 302)"},
		"see other": {http.StatusSeeOther, []string{"/mcp", "/mcp/"}, "redirects to /mcp/ (HTTP 303)"},
		"another host": {
			http.StatusPermanentRedirect,
			[]string{"/mcp", "http://192.0.2.1/mcp/"},
			"redirects to http://192.0.2.1/mcp/ (HTTP 308)",
		},
		"another query":  {http.StatusPermanentRedirect, []string{"/mcp", "/mcp/?a=b"}, "redirects to /mcp/ (HTTP 308)"},
		"itself":         {http.StatusPermanentRedirect, []string{"/mcp", "/mcp"}, "redirects to /mcp (HTTP 308)"},
		"round in rings": {http.StatusPermanentRedirect, []string{"/mcp", "/mcp/", "/mcp"}, ""},
		"too many steps": {
			http.StatusPermanentRedirect,
			[]string{"/mcp", "/1", "/2", "/3", "/4"},
			"redirects to /1 (HTTP 308)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, both)
			redirecting(b, tc.status, tc.paths...)
			status, header, all := answerOf(t, front(t, b), modern("1", "tools/list", "", ""), asModern("tools/list", "")...)
			if status != http.StatusBadGateway || len(all) != 1 || all[0].Error == nil ||
				!strings.Contains(all[0].Error.Message, tc.says) || header.Get("Location") != "" {
				t.Errorf("HTTP %d, Location %q, %+v", status, header.Get("Location"), all)
			}
			if got := len(b.got(http.MethodPost)); got > 6 {
				t.Errorf("the backend got %d requests", got)
			}
		})
	}
}

// Who is not let in is told so, and leads nobody else astray: one server has a login, another asks at its endpoint for
// a key.
func TestARedirectOfThoseWhoAreNotLetIn(t *testing.T) {
	for to, refused := range map[string]int{"/mcp/": http.StatusUnauthorized, "/login": http.StatusBadGateway} {
		t.Run(to, func(t *testing.T) {
			b := newBackend(t, legacyOnly)
			b.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				let := r.Header.Get("X-Api-Key") == "a"
				switch {
				case r.URL.Path == "/mcp" && (to == "/mcp/" || !let):
					w.Header().Set("Location", to)
					w.WriteHeader(http.StatusTemporaryRedirect)
				case !let:
					w.WriteHeader(http.StatusUnauthorized)
				}
				return !let || r.URL.Path == "/mcp" && to == "/mcp/"
			})
			endpoint := front(t, b)
			for _, key := range []string{"", "a", ""} {
				want := refused
				if key == "a" {
					want = http.StatusOK
				}
				headers := append(asModern("tools/list", ""), "X-Api-Key", key)
				if status, m := send(t, endpoint, modern("1", "tools/list", "", ""), headers...); status != want {
					t.Errorf("key %q: HTTP %d with %+v, want %d", key, status, m.Error, want)
				}
			}
		})
	}
}

// Where an answer leads that is no redirect nobody goes: neither to another host, nor to another path.
func TestALocationThatIsNoRedirectLeadsNowhere(t *testing.T) {
	for name, location := range map[string]string{
		"another host": "http://192.0.2.1/mcp/", "another query": "/other?a=b", "a path": "/other", "a slash": "/mcp/",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, both)
			var mu sync.Mutex
			var asked []string
			b.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, r.RequestURI+" of "+r.Host)
				if r.RequestURI != "/mcp" {
					return false // it serves MCP there
				}
				w.Header().Set("Location", location)
				w.WriteHeader(http.StatusBadGateway)
				return true
			})
			send(t, front(t, b), modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")...)
			mu.Lock()
			defer mu.Unlock()
			for _, target := range asked {
				if !strings.HasPrefix(target, "/mcp of ") {
					t.Errorf("the backend was asked at %s", target)
				}
			}
		})
	}
}

// A backend may lead each caller elsewhere, by what it lets them in with. Nobody is led where another one was; a place
// to which everybody is led is one for all, also where a caller with a key was the first.
func TestAPlaceOfOneCallerIsNoneOfOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		to     func(key string) string
		served bool
	}{
		"of each": {func(key string) string { return "/tenants/" + key }, false},
		"of who has a key": {func(key string) string {
			if key == "" {
				return "/login"
			}
			return "/in"
		}, false},
		"of all":  {func(string) string { return "/api/v1" }, true},
		"a slash": {func(string) string { return "/mcp/" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, both)
			var mu sync.Mutex
			var astray []string
			b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				key := r.Header.Get("X-Api-Key")
				if r.URL.Path == "/mcp" {
					w.Header().Set("Location", tc.to(key))
					w.WriteHeader(http.StatusTemporaryRedirect)
					return true
				}
				mu.Lock()
				defer mu.Unlock()
				if r.URL.Path != tc.to(key) && strings.Contains(string(body), "tools/call") {
					astray = append(astray, key+" at "+r.URL.Path)
				}
				return false
			})
			endpoint := front(t, b)
			for _, key := range []string{"a", "b", "a", ""} {
				headers := append(asModern("tools/call", "echo"), "X-Api-Key", key)
				status, m := send(t, endpoint, modern("1", "tools/call", echo, ""), headers...)
				if named := m.Error != nil && strings.Contains(m.Error.Message, "spec.path"); tc.served != (status == 200) ||
					!tc.served && !named {
					t.Errorf("the call with key %q: HTTP %d with %+v", key, status, m.Error)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if len(astray) > 0 {
				t.Errorf("calls went to where others are led: %q", astray)
			}
		})
	}
}
