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

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asking is a call of a client that can be asked.
func asking(id, more string) string {
	return strings.Replace(modern(id, "tools/call", `"name":"ask","arguments":{}`+more, ""), `clientCapabilities":{}`,
		`clientCapabilities":{"elicitation":{}}`, 1)
}

func TestAQuestionGoesToWhoMadeTheCall(t *testing.T) {
	endpoint := front(t, newBackend(t, legacyOnly))
	ann, bob := append(asModern("tools/call", "ask"), "X-Api-Key", "ann"),
		append(asModern("tools/call", "ask"), "X-Api-Key", "bob")
	_, got := send(t, endpoint, asking("1", ""), ann...)
	if got.Result["resultType"] != "input_required" {
		t.Fatalf("%+v", got)
	}
	state := fmt.Sprintf(`,"requestState":%q`, got.Result["requestState"])
	answer := `,"inputResponses":{"input":{"action":"accept","content":{"name":"Ada"}}}`
	if _, other := send(t, endpoint, asking("2", state+answer), bob...); other.Error == nil || other.Error.Code != -32602 {
		t.Errorf("another caller gets %+v", other)
	}
	another := strings.Replace(asking("3", state+answer), `"arguments":{}`, `"arguments":{"a":1}`, 1)
	if _, other := send(t, endpoint, another, ann...); other.Error == nil || other.Error.Code != -32602 {
		t.Errorf("another call gets %+v", other)
	}
	_, again := send(t, endpoint, asking("4", state), ann...)
	if again.Result["resultType"] != "input_required" {
		t.Fatalf("without an answer: %+v", again)
	}
	state = fmt.Sprintf(`,"requestState":%q`, again.Result["requestState"])
	_, done := send(t, endpoint, asking("5", state+answer), ann...)
	if text := fmt.Sprint(done.Result["content"]); !strings.Contains(text, "hello Ada") || string(done.ID) != "5" {
		t.Errorf("with an answer: %+v", done)
	}
	if _, twice := send(t, endpoint, asking("6", state+answer), ann...); twice.Error == nil {
		t.Errorf("with an answer again: %+v", twice)
	}
}

func TestALegacyServerAsksForWhatIsNotDeclared(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...)
	b.says("tools/call", http.StatusOK, `data: {"jsonrpc":"2.0","id":1,"method":"roots/list"}`+"\n\n")
	status, got := send(t, endpoint, modern("2", "tools/call", echo, ""), asModern("tools/call", "echo")...)
	if status != http.StatusBadRequest || got.Error == nil || got.Error.Code != -32021 {
		t.Fatalf("HTTP %d with %+v", status, got)
	}
	if diff := cmp.Diff(map[string]any{"requiredCapabilities": map[string]any{"roots": map[string]any{}}},
		got.Error.Data); diff != "" {
		t.Error(diff)
	}
}

func TestASubscriptionIsServedFromTheStreamOfASession(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	lines := subscribe(ctx, t, endpoint, `{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}`)
	next := func() message {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				m := message{}
				if err := json.Unmarshal([]byte(text), &m); err != nil {
					t.Fatal(err)
				}
				return m
			}
		}
		t.Fatal("the stream has ended")
		return message{}
	}
	ack := next()
	if want := `{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}}`; ack.Method != "notifications/subscriptions/acknowledged" || string(ack.Params) != want {
		t.Errorf("first comes %s %s", ack.Method, ack.Params)
	}
	b.server.AddPrompt(&mcp.Prompt{Name: "unasked"}, nil)
	if err := b.server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "test://a"}); err != nil {
		t.Fatal(err)
	}
	if m := next(); m.Method != "notifications/resources/updated" ||
		!strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":7`) {
		t.Errorf("then comes %s %s", m.Method, m.Params)
	}
	b.server.RemoveTools("hang")
	if m := next(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("then comes %s %s", m.Method, m.Params)
	}
	leave()
	await(t, func() bool { return len(b.got(http.MethodDelete)) == 2 }) // of the probe, and of the subscription
}

// The proxy reads the list of tools itself before the first call with arguments. What the server asks meanwhile gets an
// answer.
func TestAServerThatAsksTheProxyGetsAnAnswer(t *testing.T) {
	for question, want := range map[string]string{
		`"method":"roots/list"`: `"the client cannot be asked now"`,
		`"method":"ping"`:       `"result":{}`,
	} {
		b, endpoint := behind(t, legacyOnly)
		told := make(chan string, 1)
		b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			m := message{}
			switch _ = json.Unmarshal(body, &m); {
			case m.Method == "" && string(m.ID) == "77":
				w.WriteHeader(http.StatusAccepted)
				told <- string(body)
			case m.Method == "tools/list":
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":77,"+question+"}\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case got := <-told:
					if !strings.Contains(got, want) {
						t.Errorf("%s is answered with %s, want %s", question, got, want)
					}
				case <-time.After(patience):
					t.Errorf("%s is not answered", question)
				}
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+",\"result\":{\"tools\":[]}}\n\n")
			default:
				return false
			}
			return true
		})
		status, got := send(t, endpoint, modern("2", "tools/call", echo, ""), asModern("tools/call", "echo")...)
		if status != http.StatusOK || got.Result["resultType"] != "complete" {
			t.Errorf("HTTP %d with %+v", status, got)
		}
	}
}

// A backend that has a question for every message is not answered for ever.
func TestAServerThatOnlyAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		method, params, name string
		asked                int
	}{
		"a client's list": {"tools/list", "", "", 2},
		"a call, whose tools the proxy lists itself at first": {"tools/call", echo, "echo", 4},
	} {
		t.Run(name, func(t *testing.T) {
			b, endpoint := behind(t, legacyOnly)
			send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...)
			before := len(b.got(http.MethodPost))
			b.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Method != http.MethodPost {
					return false
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"ping\"}\n\n")
				return true
			})
			status, got := send(t, endpoint, modern("2", tc.method, tc.params, ""), asModern(tc.method, tc.name)...)
			if status != http.StatusOK || got.Error == nil {
				t.Errorf("HTTP %d with %+v", status, got)
			}
			if asked := len(b.got(http.MethodPost)) - before; asked != tc.asked {
				t.Errorf("the backend got %d messages, want %d: each question is answered once", asked, tc.asked)
			}
		})
	}
}

// What a server asks while a list is on its way, as for roots when a session begins, is refused: the list is answered.
func TestAListAsksNothing(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...)
	refused := make(chan string, 1)
	b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		m := message{}
		switch _ = json.Unmarshal(body, &m); {
		case m.Error != nil:
			w.WriteHeader(http.StatusAccepted)
			refused <- string(m.ID) + ": " + m.Error.Message
			return true
		case !strings.HasSuffix(m.Method, "/list") && m.Method != "completion/complete":
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"roots/list\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case said := <-refused:
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+",\"result\":{\"said\":\""+
				said+"\"}}\n\n")
		case <-time.After(patience):
		}
		return true
	})
	for _, method := range []string{
		"tools/list", "prompts/list", "resources/list", "resources/templates/list",
		"completion/complete",
	} {
		for _, capabilities := range []string{`{"roots":{}}`, `{}`} {
			asked := strings.Replace(modern("2", method, "", ""), `"io.modelcontextprotocol/clientCapabilities":{}`,
				`"io.modelcontextprotocol/clientCapabilities":`+capabilities, 1)
			status, got := send(t, endpoint, asked, asModern(method, "")...)
			if want := "77: the client cannot be asked in an answer to " + method; status != http.StatusOK ||
				got.Result["said"] != want || got.Result["resultType"] != "complete" {
				t.Errorf("%s of a client with %s: HTTP %d with %+v", method, capabilities, status, got)
			}
		}
	}
	b.says("tools/list", http.StatusOK,
		`{"jsonrpc":"2.0","id":ID,"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url"}]}}}`)
	asked := strings.Replace(modern("3", "tools/list", "", ""), `Capabilities":{}`,
		`Capabilities":{"elicitation":{"url":{}}}`, 1)
	if status, got := send(t, endpoint, asked, asModern("tools/list", "")...); got.Error == nil ||
		got.Error.Message != "visit" {
		t.Errorf("a list that wants a page visited: HTTP %d with %+v", status, got)
	}
}

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
			b, endpoint := behind(t, legacyOnly)
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
		b, endpoint := behind(t, legacyOnly)
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
		b, endpoint := behind(t, legacyOnly)
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
	b, endpoint := behind(t, legacyOnly)
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
