package era_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// subscribe begins a subscription, and returns its lines. It ends with ctx, or the test.
func subscribe(ctx context.Context, t *testing.T, endpoint, notifications string, more ...string) *bufio.Scanner {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	r := requestOf(t, endpoint, modern("7", "subscriptions/listen", `"notifications":`+notifications, ""),
		append(asModern("subscriptions/listen", ""), more...)...)
	response, err := http.DefaultClient.Do(r.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return bufio.NewScanner(response.Body)
}

// found reports whether a line with these words comes.
func found(lines *bufio.Scanner, words string) bool {
	for lines.Scan() {
		if strings.Contains(lines.Text(), words) {
			return true
		}
	}
	return false
}

// A server ends a session whose client does not answer its ping, and with it a subscription. Nothing waits for the
// answers: they are taken here only after the notification has arrived that comes behind the questions.
func TestASubscriptionAnswersWhatTheServerAsks(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	told, arrived := make(chan string, 10), make(chan struct{})
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		m := message{}
		_ = json.Unmarshal(body, &m)
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			say := func(asked string) {
				_, _ = io.WriteString(w, "data: "+asked+
					"\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
				_ = http.NewResponseController(w).Flush()
			}
			say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			<-arrived
			say(
				`[{"jsonrpc":"2.0","id":"2","method":"roots/list"},{"jsonrpc":"2.0","id":null,"method":"ping"},{"jsonrpc":"2.0","id":3,"result":{}}]`)
			<-r.Context().Done()
		case m.Method == "" && m.ID != nil:
			<-arrived
			told <- fmt.Sprintf("%s: a result %v in a session %v", m.ID, m.Result != nil, r.Header.Get("Mcp-Session-Id") != "")
			w.WriteHeader(http.StatusAccepted)
		default:
			return false
		}
		return true
	})
	lines := subscribe(t.Context(), t, endpoint, `{"toolsListChanged":true}`)
	if !found(lines, "tools/list_changed") {
		t.Fatalf("the notification behind the question does not come: %v", lines.Err())
	}
	close(arrived)
	if !found(lines, "tools/list_changed") {
		t.Fatalf("the notification behind all questions does not come: %v", lines.Err())
	}
	var got []string
	for range 2 {
		select {
		case answer := <-told:
			got = append(got, answer)
		case <-time.After(patience):
			t.Fatalf("the server gets no more answers than %q", got)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{`"2": a result false in a session true`, `1: a result true in a session true`},
		got); diff != "" {
		t.Error(diff)
	}
}

// changesTools has each call tell a change twice in its own session alone: on the session's stream, and on the call's.
func (b *backend) changesTools() {
	var mu sync.Mutex
	streams := map[string]chan string{}
	of := func(session string) chan string {
		mu.Lock()
		defer mu.Unlock()
		if streams[session] == nil {
			streams[session] = make(chan string, 1)
		}
		return streams[session]
	}
	say := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	changed := func(where string) string {
		return `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"where":"` + where + "\"}}\n\n"
	}
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		m, session := message{}, r.Header.Get("Mcp-Session-Id")
		_ = json.Unmarshal(body, &m)
		switch {
		case r.Method == http.MethodGet:
			say(w, ": begins\n\n")
			for r.Context().Err() == nil {
				select {
				case text := <-of(session):
					say(w, text)
				case <-r.Context().Done():
				}
			}
		case m.Method == "tools/call":
			of(session) <- changed("standing")
			say(w, changed("call")+`data: {"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"content":[]}}`+"\n\n")
		default:
			return false
		}
		return true
	})
}

// A server that tells a change in the session of the call that made it alone tells it to that client's subscriptions,
// and nobody else's.
func TestASubscriptionHearsWhatTheCallsOfItsClientChange(t *testing.T) {
	b := newBackend(t, legacyOnly)
	b.changesTools()
	endpoint, _ := drainable(t, b, 50*time.Millisecond)
	lines := subscribe(t.Context(), t, endpoint, `{"toolsListChanged":true}`)
	if !found(lines, "subscriptions/acknowledged") {
		t.Fatal(lines.Err())
	}
	other := subscribe(t.Context(), t, endpoint, `{"toolsListChanged":true}`, "X-Api-Key", "of another")
	status, all := sendAll(t, endpoint, modern("1", "tools/call", `"name":"greet","arguments":{}`, ""),
		asModern("tools/call", "greet")...)
	if status != http.StatusOK || len(all) != 1 || all[0].Result == nil {
		t.Errorf("the call ends with HTTP %d and %v", status, all)
	}
	left := []string{`"where":"call"`, `"where":"standing"`}
	for len(left) > 0 && found(lines, "tools/list_changed") {
		if !strings.Contains(lines.Text(), `"io.modelcontextprotocol/subscriptionId":7`) {
			t.Errorf("it says %s", lines.Text())
		}
		left = slices.DeleteFunc(left, func(words string) bool { return strings.Contains(lines.Text(), words) })
	}
	if len(left) > 0 {
		t.Errorf("of %s it does not hear: %v", left, lines.Err())
	}
	for range 8 {
		if other.Scan(); strings.Contains(other.Text(), "list_changed") {
			t.Errorf("another caller hears %s", other.Text())
		}
	}
}

// A server that asks and asks has one answer on its way, and its client is told that the stream is alive.
func TestASubscriptionIsNotFloodedWithQuestions(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint, _ := drainable(t, b, 50*time.Millisecond)
	var answers atomic.Int32
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		m := message{}
		_ = json.Unmarshal(body, &m)
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 1000 {
				_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i)
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case m.Method == "" && m.ID != nil:
			answers.Add(1)
			<-r.Context().Done() // it takes none
		default:
			return false
		}
		return true
	})
	lines := subscribe(t.Context(), t, endpoint, `{"toolsListChanged":true}`)
	await(t, func() bool { return answers.Load() > 0 })
	for comments := 0; comments < 10; {
		if !lines.Scan() {
			t.Fatalf("the stream ends after %d comments: %v", comments, lines.Err())
		}
		if lines.Text() == ":" {
			comments++
		}
	}
	if n := answers.Load(); n != 1 {
		t.Errorf("%d answers are on their way at once", n)
	}
}
