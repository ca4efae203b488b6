package era_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// replaced is a backend of both eras whose pods are replaced by such as refuse calls of the modern era in some words.
func replaced(
	t *testing.T, words string,
) (b *backend, endpoint string, content *atomic.Pointer[string], legacy *atomic.Bool) {
	t.Helper()
	b, content, legacy = newBackend(t, both), &atomic.Pointer[string]{}, &atomic.Bool{}
	content.Store(new("before"))
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if !legacy.Load() || r.Header.Get("Mcp-Protocol-Version") != protocol.Modern {
			return false
		}
		m := message{}
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Of-The-Backend", "yes")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":`+words+`}`)
		return true
	})
	endpoint, _ = frontWith(t, b, func(c *era.Config) { c.Content = func() string { return *content.Load() } })
	return b, endpoint, content, legacy
}

const refusesTheEra = `{"code":-32022,"message":"no such revision","data":{"supported":["2025-11-25","2025-06-18"],"requested":"2026-07-28"}}`

func calls(t *testing.T, endpoint string, want int, words, when string) http.Header {
	t.Helper()
	status, header, all := answerOf(t, endpoint, modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")...)
	text, _ := json.Marshal(all)
	if status != want || len(all) != 1 || !strings.Contains(string(text), words) {
		t.Errorf("%s: HTTP %d with %s, want %d", when, status, text, want)
	}
	return header
}

// A proxy asks pods of another content while the first of them starts, and a call waits for that pod.
func TestACallThatThePodAfterTheLastOneRefuses(t *testing.T) {
	b, endpoint, content, legacy := replaced(t, refusesTheEra)
	calls(t, endpoint, http.StatusOK, `"result"`, "before")
	var starting atomic.Bool
	var asked atomic.Int64
	before := b.answer
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.Header.Get("Mcp-Method") == "server/discover" {
			if asked.Add(1); starting.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
		}
		return before(w, r, body)
	})
	starting.Store(true)
	content.Store(new("after"))
	calls(t, endpoint, http.StatusOK, `"result"`, "nobody has said anything yet")
	legacy.Store(true)
	calls(t, endpoint, http.StatusOK, `"result"`, "the pod is there")
	starting.Store(false)
	asked.Store(0)
	calls(t, endpoint, http.StatusOK, `"result"`, "after")
	if n := asked.Load(); n > 0 {
		t.Errorf("what the pod has said is asked for %d times more", n)
	}
}

// A question that pods of before are slow to answer does not replace what those after them have said meanwhile.
func TestASlowAnswerOfFormerPodsIsNotKept(t *testing.T) {
	b := newBackend(t, both)
	var content atomic.Pointer[string]
	content.Store(new("before"))
	var asked atomic.Int64
	waits, answer := make(chan struct{}), make(chan struct{})
	b.answers(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Header.Get("Mcp-Method") == "server/discover" && asked.Add(1) == 1 {
			close(waits)
			<-answer
		}
		return false
	})
	endpoint, _ := frontWith(t, b, func(c *era.Config) { c.Content = func() string { return *content.Load() } })
	call := func(from string) {
		status, _ := send(t, endpoint, modern("1", "tools/call", echo, ""),
			append(asModern("tools/call", "echo"), "X-Login", from)...)
		if status != http.StatusOK {
			t.Errorf("a call of %s: HTTP %d", from, status)
		}
	}
	var first sync.WaitGroup
	first.Go(func() { call("ann") })
	<-waits
	content.Store(new("after"))
	call("bob")
	close(answer)
	first.Wait()
	asked.Store(1)
	call("bob")
	if n := asked.Load() - 1; n > 0 {
		t.Errorf("what the new pods have said is asked for %d times more", n)
	}
}

// Whichever pod answered the question when the proxy began, its successors may speak other revisions.
func TestWhatNewPodsSpeakIsAskedAnew(t *testing.T) {
	b, endpoint, content, legacy := replaced(t, refusesTheEra)
	calls(t, endpoint, http.StatusOK, `"result"`, "before")
	legacy.Store(true)
	calls(t, endpoint, http.StatusBadRequest, "no such revision", "while nobody knows")
	content.Store(new("after"))
	calls(t, endpoint, http.StatusOK, `"result"`, "after")
	asked := len(b.got("server/discover"))
	calls(t, endpoint, http.StatusOK, `"result"`, "later")
	if again := len(b.got("server/discover")); asked != 2 || again != asked {
		t.Errorf("the backend was asked %d times, then %d", asked, again)
	}
}

// While pods of two contents serve, a call that one refuses for its revision has not run, and is translated.
func TestACallThatAPodOfAnotherContentRefuses(t *testing.T) {
	b, endpoint, content, legacy := replaced(t, refusesTheEra)
	content.Store(new(era.Mixed))
	calls(t, endpoint, http.StatusOK, `"result"`, "an older pod")
	legacy.Store(true)
	for range 2 {
		calls(t, endpoint, http.StatusOK, `"result"`, "a newer pod")
	}
	if got := len(b.got("tools/call")); got != 4 {
		t.Errorf("the backend got %d calls, want 1 that it refused, and 3", got)
	}
}

// What a backend refuses for another reason passes as it is.
func TestARefusalWhilePodsAreReplacedPasses(t *testing.T) {
	for name, words := range map[string]string{
		"another error": `{"code":-32602,"message":"what is that"}`,
		"of the era":    `{"code":-32022,"message":"what is that","data":{"supported":["2026-07-28"]}}`,
		"a long one":    `{"code":-32022,"message":"what is that","data":{"x":"` + strings.Repeat("x", 100<<10) + `"}}`,
	} {
		b, endpoint, content, legacy := replaced(t, words)
		content.Store(new(era.Mixed))
		calls(t, endpoint, http.StatusOK, `"result"`, name)
		legacy.Store(true)
		if header := calls(t, endpoint, http.StatusBadRequest, "what is that",
			name); header.Get("X-Of-The-Backend") != "yes" {
			t.Errorf("%s: it has the headers %v", name, header)
		}
		if got := len(b.got("tools/call")); got != 2 {
			t.Errorf("%s: the backend got %d calls", name, got)
		}
	}
}

// Of a refusal that is not whole its client has what there is, as it has where nobody looks at refusals.
func TestARefusalThatIsNotWholeHasItsStatus(t *testing.T) {
	for _, now := range []string{"one", era.Mixed} {
		b := newBackend(t, both)
		var breaks atomic.Bool
		b.answers(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			if !breaks.Load() {
				return false
			}
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn,
				"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"")
			_ = conn.Close()
			return true
		})
		endpoint, _ := frontWith(t, b, func(c *era.Config) { c.Content = func() string { return now } })
		calls(t, endpoint, http.StatusOK, `"result"`, now)
		breaks.Store(true)
		response, err := http.DefaultClient.Do(requestOf(t, endpoint, modern("1", "tools/call", echo, ""),
			asModern("tools/call", "echo")...))
		if err != nil {
			t.Errorf("%s: no status: %v", now, err)
			continue
		}
		part, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest || string(part) != `{"jsonrpc"` {
			t.Errorf("%s: HTTP %d with %q", now, response.StatusCode, part)
		}
	}
}

// Where the backend of before led, that of now need not answer, and calls of sessions go to where it does.
func TestThePlaceOfFormerPodsIsNoneOfNewOnes(t *testing.T) {
	places := map[string]string{"before": "/mcp/", "after": "/mcp"}
	b := newBackend(t, both)
	var content, last atomic.Pointer[string]
	content.Store(new("before"))
	b.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		last.Store(new(r.URL.Path))
		at := places[*content.Load()]
		switch r.URL.Path {
		case at:
			return false
		case "/mcp":
			w.Header().Set("Location", at)
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		return true
	})
	endpoint, _ := frontWith(t, b, func(c *era.Config) { c.Content = func() string { return *content.Load() } })
	calls(t, endpoint, http.StatusOK, `"result"`, "before")
	content.Store(new("after"))
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodGet, http.MethodDelete} {
		r, _ := http.NewRequestWithContext(t.Context(), method, endpoint, nil)
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Session-Id", "kept by the client")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := *last.Load(); got != "/mcp" {
			t.Errorf("%s reached %s: HTTP %d", method, got, response.StatusCode)
		}
	}
}
