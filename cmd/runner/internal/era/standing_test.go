package era_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// onStream has a backend ask, or tell, on the session's own stream once a tool is called, and answer the call with what
// it is answered. Without question it answers at once.
func onStream(b *backend, question, note string) {
	asked, answered := make(chan struct{}), make(chan string, 1)
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		m := message{}
		_ = json.Unmarshal(body, &m)
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-asked:
			case <-r.Context().Done():
				return true
			}
			if note != "" {
				_, _ = io.WriteString(w, "data: "+note+"\n\n")
			}
			if question != "" {
				_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":"q",`+question+"}\n\n")
			} else {
				answered <- "nothing"
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case m.Method == "" && string(m.ID) == `"q"`:
			answered <- string(body)
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "tools/call":
			close(asked)
			select {
			case got := <-answered:
				if question == "" {
					time.Sleep(100 * time.Millisecond) // the note is on another connection
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, m.ID, got)
			case <-r.Context().Done():
			}
		default:
			return false
		}
		return true
	})
}

// A server that does not say for which call it asks does so on the session's own stream.
func TestAQuestionOnTheStreamOfASessionReachesTheCallersClient(t *testing.T) {
	client := mcp.NewClient(&mcp.Implementation{Name: "before", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		//nolint:staticcheck // legacy servers ask for it
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "Ada", Role: "assistant", Content: &mcp.TextContent{Text: "hi"}}, nil //nolint:staticcheck // as above
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///Ada"}) //nolint:staticcheck // as above
	for name, question := range map[string]string{
		"roots":       `"method":"roots/list"`, // without parameters, as the TypeScript SDK asks
		"elicitation": `"method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`,
		"sampling":    `"method":"sampling/createMessage","params":{"maxTokens":5,"messages":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, legacyOnly)
			endpoint := front(t, b)
			onStream(b, question, "")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint, MaxRetries: -1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo"})
			if err != nil {
				t.Fatal(err)
			}
			if text := got.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, "Ada") {
				t.Errorf("the server is answered %s", text)
			}
		})
	}
}

// A stream that ends, as where a load balancer cuts it, is asked for again while a call waits for what comes there.
func TestAQuestionAfterTheStreamOfASessionHasEnded(t *testing.T) {
	for said, after := range map[string]string{"id: e\nretry: 100\ndata:\n\n": "e", ": hello\n\n": ""} {
		b := newBackend(t, legacyOnly)
		endpoint := front(t, b)
		var streams atomic.Int64
		answered, last := make(chan string, 1), make(chan string, 1)
		b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			m := message{}
			_ = json.Unmarshal(body, &m)
			switch {
			case r.Method == http.MethodGet:
				w.Header().Set("Content-Type", "text/event-stream")
				if streams.Add(1) == 1 {
					_, _ = io.WriteString(w, said)
					break
				}
				last <- r.Header.Get("Last-Event-Id")
				_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":"q","method":"ping"}`+"\n\n")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			case m.Method == "" && string(m.ID) == `"q"`:
				answered <- string(body)
				w.WriteHeader(http.StatusAccepted)
			case m.Method == "tools/call":
				select {
				case got := <-answered:
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, m.ID, got)
				case <-r.Context().Done():
				}
			default:
				return false
			}
			return true
		})
		_, got := send(t, endpoint, strings.Replace(asking("1", ""), `"name":"ask"`, `"name":"echo"`, 1),
			asModern("tools/call", "echo")...)
		if !strings.Contains(fmt.Sprint(got.Result["content"]), `"result":{}`) || <-last != after {
			t.Errorf("after %q: %+v", said, got)
		}
	}
}

// What a client cannot answer is refused on its behalf, and a ping is answered: the call goes on.
func TestAQuestionOnTheStreamOfASessionThatNoClientCanAnswer(t *testing.T) {
	for question, want := range map[string]string{
		`"method":"ping"`:                                 `"result":{}`,
		`"method":"roots/list"`:                           "cannot be asked now",
		`"method":"elicitation/create","params":{}`:       "",
		`"method":"notifications/tools/list_changed/ask"`: "cannot be asked now",
	} {
		b := newBackend(t, legacyOnly)
		endpoint := front(t, b)
		onStream(b, question, "")
		_, got := send(t, endpoint, strings.Replace(asking("1", ""), `"name":"ask"`, `"name":"echo"`, 1),
			asModern("tools/call", "echo")...)
		if want == "" && got.Result["resultType"] != "input_required" ||
			!strings.Contains(fmt.Sprint(got.Result["content"]), want) {
			t.Errorf("%s: %+v", question, got)
		}
	}
}

// Without an id of a call, log messages and progress come on the session's own stream.
func TestWhatIsSaidOnTheStreamOfASession(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	onStream(b, "", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`)
	_, all := sendAll(t, endpoint, modern("1", "tools/call", echo, `"io.modelcontextprotocol/logLevel":"info"`),
		asModern("tools/call", "echo")...)
	if len(all) != 2 || !strings.Contains(string(all[0].Params), "hello") {
		t.Errorf("a client that wants log messages gets %+v", all)
	}
}

// The stream is there while its session is, and there is one of them.
func TestThereIsOneStreamOfASession(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint, drain := drainable(t, b, 0)
	for range 3 {
		send(t, endpoint, strings.Replace(asking("1", ""), `"name":"ask"`, `"name":"echo"`, 1),
			asModern("tools/call", "echo")...)
		// of a client that hears nothing
		send(t, endpoint, modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")...)
	}
	if got := len(b.got(http.MethodGet)); got != 1 {
		t.Errorf("%d streams were opened", got)
	}
	drain(time.Second) // ends it: the backend closes only then
}
