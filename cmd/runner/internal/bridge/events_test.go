package bridge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// saying is a server of the transport HTTP+SSE with many streams. first is what each begins with, and take what it does
// with a message before it answers the POST: say says something on the stream.
type saying struct {
	first string
	take  func(m jsonrpc.Message, say func(event string))

	mu      sync.Mutex
	streams []chan string
}

// ServeHTTP implements http.Handler.
func (s *saying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		n, _ := strconv.Atoi(r.URL.Query().Get("session"))
		s.mu.Lock()
		stream := s.streams[n]
		s.mu.Unlock()
		s.take(read(body)[0], func(event string) { stream <- event })
		return
	}
	stream := make(chan string, 100)
	s.mu.Lock()
	n := len(s.streams)
	s.streams = append(s.streams, stream)
	s.mu.Unlock()
	stream <- s.first + "event: endpoint\ndata: /messages?session=" + strconv.Itoa(n) + "\n\n"
	for {
		select {
		case event := <-stream:
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// answerOf is an event with the answer to a call.
func answerOf(m jsonrpc.Message, result string) string {
	return "event:message\ndata:" + `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + "}\n\n"
}

const agreed = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`

// Servers say other things on a stream, before their endpoint and before they answer initialize: npm's mcp-proxy logs
// that the stream is there.
func TestAServerSaysOtherThingsOnItsStream(t *testing.T) {
	const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"established"}}`
	for name, first := range map[string]string{
		"nothing":       "",
		"a comment":     ": connected\n\n",
		"a retry":       "retry: 3000\n\n",
		"an id alone":   "id: 0\ndata:\n\n",
		"another event": "event: connected\ndata: {}\n\n",
		"a message":     "event: message\ndata: " + log + "\n\n",
		"a mark":        "\ufeff",
	} {
		t.Run(name, func(t *testing.T) {
			f := behind(t, &saying{first: first, take: func(m jsonrpc.Message, say func(string)) {
				say("event: ping\ndata: " + `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}` +
					"\n\n: ping\n\ndata: 2026-01-01\n\ndata: {\"type\":\"heartbeat\"}\n\n")
				switch m.Method {
				case "initialize":
					say("data: " + log + "\n\n")
					say(answerOf(m, agreed))
				case "tools/call":
					say(answerOf(m, `{"content":[]}`))
				}
			}})
			session := f.begin()
			if got := f.read(session, `"data":"established"`); strings.Count(got, "established") != 1 {
				t.Errorf("the standing stream has %s", got)
			}
			f.want(f.call(session, "1", "tools/call"), http.StatusOK, `"content":[]`)
		})
	}
}

// Some servers answer the POST when the tool is done, whose answer is on the stream by then. What the tool says before
// comes in time, and what it asks is answered: else both would wait.
func TestAServerAnswersAPostWhenItsToolIsDone(t *testing.T) {
	answered := make(chan string, 1)
	server := &saying{take: func(m jsonrpc.Message, say func(string)) {
		switch {
		case m.Method == "initialize":
			say(answerOf(m, agreed))
		case m.Method == "tools/call":
			say("data: " + `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}` +
				"\n\n")
			say("data: " + `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}` + "\n\n")
			say(answerOf(m, `{"content":`+<-answered+`}`))
		case string(m.ID) == `"q"`:
			answered <- string(m.Result)
		}
	}}
	const tool = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":"p"}}}`
	t.Run("a client of streamable HTTP", func(t *testing.T) {
		f := behind(t, server)
		session := f.begin()
		stream := f.do(http.MethodPost, tool, protocol.HeaderSession, session)
		defer stream.Body.Close()
		until(t, stream.Body, "elicitation/create")
		f.want(f.post(`{"jsonrpc":"2.0","id":"q","result":["yes"]}`, protocol.HeaderSession, session), http.StatusAccepted)
		until(t, stream.Body, `"id":7,"result":{"content":["yes"]}`)
	})
	t.Run("a client of HTTP+SSE", func(t *testing.T) {
		f := behind(t, server)
		stream := f.do(http.MethodGet, "", "Accept", "text/event-stream")
		defer stream.Body.Close()
		_, query, _ := strings.Cut(until(t, stream.Body, "freeholdSession="), "?")
		f.url += "?" + strings.TrimSpace(query)
		f.want(f.post(hello), http.StatusAccepted)
		until(t, stream.Body, `"id":"hello"`)
		f.want(f.post(tool), http.StatusAccepted)
		until(t, stream.Body, "elicitation/create")
		f.want(f.post(`{"jsonrpc":"2.0","id":"q","result":["yes"]}`), http.StatusAccepted)
		until(t, stream.Body, `"id":7,"result":{"content":["yes"]}`)
	})
}

// until reads until a line has a part, which it returns.
func until(t *testing.T, from io.Reader, part string) string {
	t.Helper()
	var line []byte
	late := time.AfterFunc(10*time.Second, func() { t.Errorf("%s has not come", part) })
	defer late.Stop()
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(from, one); err != nil {
			t.Fatalf("%v before %s", err, part)
		}
		if line = append(line, one[0]); one[0] != '\n' {
			continue
		}
		if strings.Contains(string(line), part) {
			return string(line)
		}
		line = line[:0]
	}
}

// What has no answer on the stream is taken when it was sent, however long the server is busy with it.
func TestAServerThatIsBusyHasTheMessage(t *testing.T) {
	tellTime = 100 * time.Millisecond
	t.Cleanup(func() { tellTime = dialTime })
	stay := make(chan struct{})
	f := behind(t, &saying{take: func(m jsonrpc.Message, say func(string)) {
		if m.Method == "initialize" {
			say(answerOf(m, agreed))
		} else {
			<-stay
		}
	}})
	t.Cleanup(func() { close(stay) })
	f.want(f.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, protocol.HeaderSession, f.begin()),
		http.StatusAccepted)
}

// A server may forget a session whose stream it holds open, or listen no more. Its connection ends then: those who use
// it begin anew.
func TestAConnectionWhoseEndpointIsGoneIsNotUsed(t *testing.T) {
	for says, status := range map[string]int32{"HTTP 404": 404, "HTTP 410": 410, "connection refused": 0} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, shared %t", says, shared), func(t *testing.T) {
				var gone atomic.Bool
				waits := make(chan struct{}, 1)
				server := &saying{take: func(m jsonrpc.Message, say func(string)) {
					switch {
					case m.Method == "initialize":
						say(answerOf(m, agreed))
					case m.Method == "wait":
						waits <- struct{}{}
					case m.ID != nil:
						say(answerOf(m, `{"content":[]}`))
					}
				}}
				up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Connection", "close")
					if r.Method == http.MethodPost && gone.Load() && r.URL.Query().Get("session") == "0" {
						w.WriteHeader(int(status))
						return
					}
					server.ServeHTTP(w, r)
				}))
				t.Cleanup(func() { up.CloseClientConnections(); up.Close() })
				at, err := url.Parse(up.URL + "/sse")
				if err != nil {
					t.Fatal(err)
				}
				f := serve(t, Config{Shared: shared, Server: Server{Open: Events(at, nil), Junk: func() string { return "" }}})
				session := f.begin()
				other := make(chan answer, 1)
				go func() { other <- f.call(session, "1", "wait") }()
				next(t, "call", waits)
				if gone.Store(true); status == 0 {
					_ = up.Listener.Close()
				}
				f.wantFailed(f.call(session, "2", "tools/call"), "-31007", says, "the call has not run")
				f.wantFailed(next(t, "answer to the other call", other), "-31006", says, "the call may have run")
				within(t, 5*time.Second, "the session is over", func() bool {
					return f.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`, protocol.HeaderSession, session).
						status == http.StatusNotFound
				})
				if status == 0 {
					f.want(f.post(hello), http.StatusBadGateway, "-31007", "connection refused")
				} else {
					f.want(f.call(f.begin(), "1", "tools/call"), http.StatusOK, "content")
				}
			})
		}
	}
}
