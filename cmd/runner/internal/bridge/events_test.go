package bridge

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// saying is a server of the transport HTTP+SSE with many streams. first is what each begins with, and take what it does with a message
// before it answers the POST: say says something on the stream.
type saying struct {
	first string
	take  func(m said, say func(event string))

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
func answerOf(m said, result string) string {
	return "event:message\ndata:" + `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + "}\n\n"
}

const agreed = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`

// Servers say other things on a stream, before their endpoint and before they answer initialize: npm's mcp-proxy logs that the stream is there.
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
			f := behind(t, &saying{first: first, take: func(m said, say func(string)) {
				say("event: ping\ndata: " + `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}` + "\n\n: ping\n\ndata: 2026-01-01\n\ndata: {\"type\":\"heartbeat\"}\n\n")
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
