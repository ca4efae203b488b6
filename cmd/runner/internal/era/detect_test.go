package era_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whoever asks first can send so much that initialize, which is shorter, passes the backend's bound, and server/discover does not. The
// backend is what it is for the next caller. Some servers answer 400: then only headers that let nobody in can be told from the rest.
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
			if calls := b.got("tools/list"); !strings.Contains(calls[len(calls)-1].body, "io.modelcontextprotocol/protocolVersion") {
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
				"key": r.Header.Get("X-Api-Key"), "query": r.URL.RawQuery, "trace": r.Header.Get("Traceparent"), "agent": r.Header.Get("User-Agent"),
			}
		}
		return false
	})
	status, m := send(t, endpoint+"?key=b", modern("1", "tools/list", "", ""),
		append(asModern("tools/list", ""), "X-Api-Key", "a", "Traceparent", "00-0af7651916cd43dd8448eb211c803191-b7ad6b7169203331-01")...)
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
