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

	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
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
			b := newBackend(t, both)
			endpoint := front(t, b)
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
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
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
			b := newBackend(t, legacyOnly)
			endpoint := front(t, b)
			b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				m := message{}
				if _ = json.Unmarshal(body, &m); m.Method != "server/discover" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":` + tc.refusal + `}`))
				return true
			})
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
