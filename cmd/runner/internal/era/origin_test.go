package era_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Two calls of one caller share a session, and nothing else: each goes out with the query and the headers of its own
// request.
func TestACallGoesOutWithItsOwnQueryAndHeaders(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	var mu sync.Mutex
	var got []map[string]string
	b.answers(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if strings.Contains(string(body), "tools/call") {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, map[string]string{
				"query": r.URL.RawQuery, "trace": r.Header.Get("Traceparent"),
				"request": r.Header.Get("X-Request-Id"),
			})
		}
		return false
	})
	var want []map[string]string
	for _, n := range []string{"1", "2"} {
		w := map[string]string{
			"query": "n=" + n, "trace": "00-0af7651916cd43dd8448eb211c80319" + n + "-b7ad6b7169203331-01",
			"request": "request-" + n,
		}
		want = append(want, w)
		status, m := send(t, endpoint+"?"+w["query"], modern(n, "tools/call", echo, ""),
			append(asModern("tools/call", "echo"), "Traceparent", w["trace"], "X-Request-Id", w["request"])...)
		if status != http.StatusOK {
			t.Fatalf("HTTP %d with %+v", status, m.Error)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if calls := b.got("tools/call"); calls[0].session != calls[1].session {
		t.Error("the calls share no session: this test shows nothing")
	}
}

// The answer to a server's question goes out with the headers of the request that brought it.
func TestAnAnswerGoesOutWithItsOwnHeaders(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	answered := make(chan string, 1)
	b.answers(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if strings.Contains(string(body), `"action":"accept"`) {
			answered <- r.Header.Get("X-Request-Id")
		}
		return false
	})
	_, m := send(t, endpoint, asking("1", ""), append(asModern("tools/call", "ask"), "X-Request-Id", "first")...)
	state, _ := m.Result["requestState"].(string)
	if state == "" {
		t.Fatalf("nothing is asked: %+v %+v", m.Result, m.Error)
	}
	status, m := send(t, endpoint,
		asking("2", `,"requestState":"`+state+`","inputResponses":{"input":{"action":"accept","content":{}}}`),
		append(asModern("tools/call", "ask"), "X-Request-Id", "second")...)
	if status != http.StatusOK || m.Result == nil {
		t.Fatalf("HTTP %d with %+v", status, m.Error)
	}
	if from := <-answered; from != "second" {
		t.Errorf("the answer has the headers of the %s request", from)
	}
}
