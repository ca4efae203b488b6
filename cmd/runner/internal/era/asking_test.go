package era_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The proxy reads the list of tools itself before the first call with arguments. What the server asks meanwhile gets an
// answer.
func TestAServerThatAsksTheProxyGetsAnAnswer(t *testing.T) {
	for question, want := range map[string]string{
		`"method":"roots/list"`: `"the client cannot be asked now"`,
		`"method":"ping"`:       `"result":{}`,
	} {
		b := newBackend(t, legacyOnly)
		endpoint := front(t, b)
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
			b := newBackend(t, legacyOnly)
			endpoint := front(t, b)
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
			if status != http.StatusBadGateway || got.Error == nil {
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
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
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
	b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		m := message{}
		if _ = json.Unmarshal(body, &m); m.Method != "tools/list" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+
			`,"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url"}]}}}`)
		return true
	})
	asked := strings.Replace(modern("3", "tools/list", "", ""), `Capabilities":{}`,
		`Capabilities":{"elicitation":{"url":{}}}`, 1)
	if status, got := send(t, endpoint, asked, asModern("tools/list", "")...); got.Error == nil ||
		got.Error.Message != "visit" {
		t.Errorf("a list that wants a page visited: HTTP %d with %+v", status, got)
	}
}
