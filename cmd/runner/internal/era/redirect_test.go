package era_test

import (
	"net/http"
	"strings"
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
