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

// forgetful has a backend refuse, as f says, what comes in a session that began before it forgot.
func forgetful(b *backend, f func(w http.ResponseWriter, m message)) (forget func()) {
	var forgotten atomic.Pointer[map[string]bool]
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		known, id := forgotten.Load(), r.Header.Get("Mcp-Session-Id")
		if known == nil || !(*known)[id] {
			return false
		}
		m := message{}
		_ = json.Unmarshal(body, &m)
		f(w, m)
		return true
	})
	return func() {
		all := map[string]bool{}
		for _, r := range b.got(http.MethodPost) {
			all[r.session] = r.session != ""
		}
		forgotten.Store(&all)
	}
}

// What servers answer that were written after the examples of the TypeScript SDK: sessions in a map, and HTTP 400 for
// what is not there.
func TestASessionThatTheServerHasForgotten(t *testing.T) {
	refusals := map[string]func(w http.ResponseWriter, m message){
		"the examples of the TypeScript SDK": func(w http.ResponseWriter, _ message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w,
				`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
		},
		"server-everything, with the id of the call": func(w http.ResponseWriter, m message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w,
				`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":`+
					string(m.ID)+`}`)
		},
		"a text": func(w http.ResponseWriter, _ message) {
			http.Error(w, "Invalid or missing session ID", http.StatusBadRequest)
		},
		"nothing": func(w http.ResponseWriter, _ message) { w.WriteHeader(http.StatusBadRequest) },
		"gone":    func(w http.ResponseWriter, _ message) { w.WriteHeader(http.StatusGone) },
		"404":     func(w http.ResponseWriter, _ message) { w.WriteHeader(http.StatusNotFound) },
	}
	for name, refuse := range refusals {
		for _, first := range []string{"tools/call", "server/discover"} {
			t.Run(name+", "+first, func(t *testing.T) {
				b, endpoint := behind(t, legacyOnly)
				if status, got := send(t, endpoint, modern("1", "tools/call", echo, ""),
					asModern("tools/call", "echo")...); status != http.StatusOK {
					t.Fatal(got)
				}
				forget := forgetful(b, refuse)
				forget()
				began, called := len(b.got("initialize")), len(b.got("tools/call"))
				if first == "server/discover" {
					if status, got := send(t, endpoint, modern("2", "server/discover", "", ""),
						asModern("server/discover", "")...); status != http.StatusOK {
						t.Errorf("server/discover: HTTP %d with %+v", status, got)
					}
				}
				status, got := send(t, endpoint, modern("3", "tools/call", echo, ""), asModern("tools/call", "echo")...)
				if status != http.StatusOK || len(b.got("initialize"))-began != 1 {
					t.Errorf("HTTP %d with %+v after %d more sessions", status, got, len(b.got("initialize"))-began)
				}
				if want := map[string]int{"tools/call": 2, "server/discover": 1}[first]; len(b.got("tools/call"))-called != want {
					t.Errorf("%d calls, want %d", len(b.got("tools/call"))-called, want)
				}
			})
		}
	}
}

// An error of the call's own is passed on, and nothing is sent twice: a ping is answered, or refused with other words.
func TestAnErrorOfTheCallIsNoLostSession(t *testing.T) {
	for name, ping := range map[string]string{
		"a ping is answered":        ``,
		"there is no ping":          `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"ping?"}}`,
		"a ping has another result": `{"jsonrpc":"2.0","id":1,"result":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			b, endpoint := behind(t, legacyOnly)
			send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...)
			b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				text := ping
				switch {
				case strings.Contains(string(body), `"tools/call"`):
					text = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no such file"}}`
				case ping == "" || !strings.Contains(string(body), `"ping"`):
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, text)
				return true
			})
			status, got := send(t, endpoint, modern("2", "tools/call", echo, ""), asModern("tools/call", "echo")...)
			if status != http.StatusBadRequest || got.Error == nil || got.Error.Message != "no such file" ||
				len(b.got("tools/call")) != 1 {
				t.Errorf("HTTP %d with %+v after %d calls", status, got, len(b.got("tools/call")))
			}
		})
	}
}

// A server that is not there is not said to be well.
func TestDiscoverIsNotAnsweredForAServerThatIsDown(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	send(t, endpoint, modern("1", "server/discover", "", ""), asModern("server/discover", "")...)
	b.answers(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	if status, got := send(t, endpoint, modern("2", "server/discover", "", ""),
		asModern("server/discover", "")...); status != http.StatusServiceUnavailable {
		t.Errorf("HTTP %d with %+v", status, got)
	}
}
