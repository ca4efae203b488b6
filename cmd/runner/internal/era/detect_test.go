package era_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// Whoever asks first can send so much that initialize, which is shorter, passes the backend's bound, and
// server/discover does not. The backend is what it is for the next caller. Some servers answer 400: then only headers
// that let nobody in can be told from the rest.
func TestWhatIsTooLongTellsNothingAboutAnEra(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		header string
	}{
		"a body":                 {http.StatusRequestEntityTooLarge, "X-Api-Key"},
		"a query":                {http.StatusRequestURITooLong, "X-Api-Key"},
		"an API key":             {http.StatusRequestHeaderFieldsTooLarge, "X-Api-Key"},
		"another header":         {http.StatusRequestHeaderFieldsTooLarge, "Baggage"},
		"another header, as 400": {http.StatusBadRequest, "Baggage"},
		"an agent, as 400":       {http.StatusBadRequest, "User-Agent"},
	} {
		t.Run(name, func(t *testing.T) {
			b, endpoint := behind(t, both)
			b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				long := len(r.Header.Get(tc.header)) >= 4096 && strings.Contains(string(body), "server/discover")
				if long {
					w.WriteHeader(tc.status)
				}
				return long
			})
			body, headers := modern("1", "tools/list", "", ""), asModern("tools/list", "")
			send(t, endpoint, body, append(headers, tc.header, strings.Repeat("x", 4096))...)
			if status, m := send(t, endpoint, body, headers...); status != http.StatusOK {
				t.Fatalf("HTTP %d with %+v", status, m.Error)
			}
			if calls := b.got("tools/list"); !strings.Contains(calls[len(calls)-1].body,
				"io.modelcontextprotocol/protocolVersion") {
				t.Errorf("the next caller is translated: the backend gets %s", calls[len(calls)-1].body)
			}
		})
	}
}

// A question goes out with what the backend may let its client in by: some answer nobody else.
func TestAQuestionHasWhatLetsItsClientIn(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	var mu sync.Mutex
	asked := map[string]map[string]string{}
	b.answers(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		m := message{}
		_ = json.Unmarshal(body, &m)
		mu.Lock()
		defer mu.Unlock()
		if asked[m.Method] == nil {
			asked[m.Method] = map[string]string{
				"key": r.Header.Get("X-Api-Key"), "query": r.URL.RawQuery, "trace": r.Header.Get("Traceparent"),
				"agent": r.Header.Get("User-Agent"),
			}
		}
		return false
	})
	status, m := send(t, endpoint+"?key=b", modern("1", "tools/list", "", ""),
		append(asModern("tools/list", ""), "X-Api-Key", "a", "Traceparent",
			"00-0af7651916cd43dd8448eb211c803191-b7ad6b7169203331-01")...)
	if status != http.StatusOK {
		t.Fatalf("HTTP %d with %+v", status, m.Error)
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]string{"key": "a", "query": "key=b", "trace": "", "agent": "freehold"}
	for _, method := range []string{"server/discover", "initialize", "notifications/initialized"} {
		if diff := cmp.Diff(want, asked[method]); diff != "" {
			t.Errorf("%s: %s", method, diff)
		}
	}
}

// A server that lists the revisions which it speaks is not asked for a session as well: a bridge would start a server
// for that.
func TestARefusalThatListsRevisionsTellsTheEra(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal  string
		sessions int
	}{
		"legacy ones": {`{"code":-32022,"message":"no","data":{"supported":["2025-11-25","2025-06-18"]}}`, 1},
		"none":        {`{"code":-32022,"message":"no"}`, 2},
		"unknown":     {`{"code":-32022,"message":"no","data":{"supported":["1999-01-01"]}}`, 2},
		"another":     {`{"code":-32601,"message":"no","data":{"supported":["2025-11-25"]}}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b, endpoint := behind(t, legacyOnly)
			b.says("server/discover", http.StatusBadRequest, `{"jsonrpc":"2.0","id":ID,"error":`+tc.refusal+`}`)
			if status, m := send(t, endpoint, modern("1", "tools/list", "", ""),
				asModern("tools/list", "")...); status != http.StatusOK {
				t.Fatalf("HTTP %d with %+v", status, m.Error)
			}
			if begun := len(b.got("initialize")); begun != tc.sessions {
				t.Errorf("%d sessions are begun, want %d", begun, tc.sessions)
			}
		})
	}
}

// Whoever the backend does not let in, and keeps waiting for that, holds up nobody who comes from elsewhere; nor, where
// the pods of a backend that is known have been replaced, who comes from the same place, longer than for one answer.
func TestThoseWhoAreNotLetInHoldUpNobodyElse(t *testing.T) {
	for name, tc := range map[string]struct {
		known       bool
		from, other string
		answered    int // questions of those who are not let in, before the call of who is
	}{
		"at the start":        {false, "here", "there", 0},
		"after a replacement": {true, "here", "there", 0},
		"from the same place": {true, "here", "here", 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, legacyOnly)
			var content atomic.Pointer[string]
			content.Store(new("before"))
			const strangers = 20
			asked, answer := make(chan struct{}, 2*strangers), make(chan struct{}, strangers)
			b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if r.Header.Get("X-Api-Key") == "a" {
					return false
				}
				if strings.Contains(string(body), "server/discover") {
					asked <- struct{}{}
					select {
					case <-answer:
					case <-r.Context().Done():
					}
				}
				w.WriteHeader(http.StatusUnauthorized)
				return true
			})
			endpoint, _ := frontWith(t, b, func(c *era.Config) {
				c.Content, c.ProbeTime = func() string { return *content.Load() }, time.Hour
			})
			call := func(key, from string) int {
				status, _ := send(t, endpoint, modern("1", "tools/call", echo, ""),
					append(asModern("tools/call", "echo"), "X-Api-Key", key, "X-Login", from)...)
				return status
			}
			if tc.known {
				call("a", tc.other)
				content.Store(new("after"))
			}
			var all sync.WaitGroup
			for n := range strangers {
				all.Go(func() { call("stranger "+string(rune('a'+n)), tc.from) })
			}
			<-asked // the others wait behind it
			for range tc.answered {
				answer <- struct{}{}
			}
			if status := call("a", tc.other); status != http.StatusOK {
				t.Errorf("the call of who is let in: HTTP %d", status)
			}
			close(answer)
			all.Wait()
		})
	}
}

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
			if status != http.StatusOK || len(all) != 1 || all[0].Error == nil ||
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
	for to, refused := range map[string]int{"/mcp/": http.StatusUnauthorized, "/login": http.StatusOK} {
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
				if status, m := send(t, endpoint, modern("1", "tools/list", "", ""), headers...); status != want ||
					status == http.StatusOK && (m.Error == nil) != (key == "a") {
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
				if named := m.Error != nil && strings.Contains(m.Error.Message, "spec.path"); status != http.StatusOK ||
					tc.served != (m.Error == nil) || !tc.served && !named {
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

// What a backend speaks is not known while nobody is there to be asked: then a call is told so, and goes to no backend
// as it is, also right after somebody has come.
func TestACallGoesNowhereUntilSomebodyCanBeAsked(t *testing.T) {
	for _, speaks := range []eras{legacyOnly, modernOnly} {
		b := newBackend(t, speaks)
		come := absent(t, b)
		endpoint := front(t, b)
		body, headers := otherEra(speaks)
		if status, got := send(t, endpoint, body, headers...); status != http.StatusOK || got.Error == nil ||
			got.Error.Code != proxy.CodeBackendStarting {
			t.Fatalf("nobody is there: HTTP %d with %+v", status, got)
		}
		come()
		if status, got := send(t, endpoint, body, headers...); status != http.StatusOK || got.Error != nil {
			t.Errorf("somebody has come: HTTP %d with %+v", status, got)
		}
	}
}
