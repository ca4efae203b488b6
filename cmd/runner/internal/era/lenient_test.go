package era_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A tool has run by the time its result is read: what is wrong with a text in it is no reason to lose the call.
func TestAResultThatIsNotCleanPasses(t *testing.T) {
	for name, tc := range map[string]struct{ result, want string }{
		"a text that is cut in an emoji":    {`{"content":[{"type":"text","text":"\ud83d"}]}`, "\ufffd"},
		"a name of a file that is no UTF-8": {`{"content":[{"type":"text","text":"` + "caf\xe9" + `"}]}`, "caf\ufffd"},
		"a member that occurs twice": {
			`{"content":[{"type":"text","text":"a"}],"structuredContent":{"a":1,"a":2}}`,
			"a",
		},
	} {
		for _, speaks := range []eras{legacyOnly, modernOnly} {
			t.Run(fmt.Sprint(name, speaks), func(t *testing.T) {
				b := newBackend(t, speaks)
				endpoint := front(t, b)
				b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
					m := message{}
					if _ = json.Unmarshal(body, &m); m.Method != "tools/call" {
						return false
					}
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+tc.result+`}`)
					return true
				})
				body, headers := modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")
				if speaks == modernOnly {
					body, headers = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+echo+`}}`, nil
				}
				status, got := send(t, endpoint, body, headers...)
				if status != http.StatusOK || !strings.Contains(fmt.Sprint(got.Result["content"]), tc.want) {
					t.Errorf("HTTP %d with %+v", status, got)
				}
			})
		}
	}
}

// An answer that cannot be read is not shown in the error, which may be another client's to read.
func TestAnErrorHasNoPieceOfAnAnswer(t *testing.T) {
	for _, speaks := range []eras{legacyOnly, modernOnly} {
		for _, answer := range []string{
			`{"jsonrpc":"2.0","id":1,"result":{"s3cr3t`, `<html>s3cr3t</html>`, `s3cr3t`,
			`{"jsonrpc":"2.0","s3cr3t":1,"s3cr3t":2}`,
		} {
			b := newBackend(t, speaks)
			endpoint := front(t, b)
			b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				if !strings.Contains(string(body), `"tools/call"`) {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, answer)
				return true
			})
			body, headers := modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")
			if speaks == modernOnly {
				body, headers = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+echo+`}}`, nil
			}
			status, got := send(t, endpoint, body, headers...)
			if text := fmt.Sprintf("%+v", got.Error); status != http.StatusBadGateway || got.Error == nil ||
				strings.Contains(text, "s3cr3t") || strings.Contains(text, "json") {
				t.Errorf("%s: HTTP %d with %s", answer, status, text)
			}
		}
	}
}

// Some servers answer with another spelling of an id.
func TestAnAnswerWhoseIDIsSpelledInAnotherWay(t *testing.T) {
	for _, speaks := range []eras{legacyOnly, modernOnly} {
		for _, id := range []string{"%s.0", `"%s"`, "null"} {
			b := newBackend(t, speaks)
			endpoint := front(t, b)
			b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				m := message{}
				if _ = json.Unmarshal(body, &m); m.Method != "tools/call" {
					return false
				}
				if strings.Contains(id, "%s") {
					m.ID = json.RawMessage(fmt.Sprintf(id, m.ID))
				} else {
					m.ID = json.RawMessage(id)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"content":[]}}`)
				return true
			})
			body, headers := modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")
			if speaks == modernOnly {
				body, headers = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+echo+`}}`, nil
			}
			if status, got := send(t, endpoint, body, headers...); status != http.StatusOK || got.Result == nil ||
				string(got.ID) != "1" {
				t.Errorf("%s: HTTP %d with %+v", id, status, got)
			}
		}
	}
}

// The same holds for the token of a call, which is ours before a legacy server.
func TestProgressWhoseTokenIsSpelledInAnotherWay(t *testing.T) {
	for _, spelled := range []string{"%s.0", `"%s"`} {
		b := newBackend(t, legacyOnly)
		endpoint := front(t, b)
		b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			m := message{}
			if _ = json.Unmarshal(body, &m); m.Method != "tools/call" {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: "+
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":`+spelled+"}}\n\n", m.ID)
			_, _ = fmt.Fprintf(w, "data: "+`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`+"\n\n", m.ID)
			return true
		})
		_, said := sendAll(t, endpoint, modern("1", "tools/call", echo, `"progressToken":"p"`),
			asModern("tools/call", "echo")...)
		if len(said) != 2 || !strings.Contains(string(said[0].Params), `"progressToken":"p"`) {
			t.Errorf("%s: the client gets %+v", spelled, said)
		}
	}
}

// Revision 2025-03-26 lets a server answer with a batch, in which something else may stand before the answer.
func TestAnAnswerBehindANotificationInABatch(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		m := message{}
		_ = json.Unmarshal(body, &m)
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`,
			"tools/call": `{"content":[]}`,
		}[m.Method]
		switch {
		case result != "":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w,
				`[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}},{"jsonrpc":"2.0","id":%s,"result":%s}]`, m.ID, result)
		case m.Method == "server/discover":
			return false
		default:
			w.WriteHeader(http.StatusAccepted)
		}
		return true
	})
	if status, got := send(t, endpoint, modern("1", "tools/call", echo, ""),
		asModern("tools/call", "echo")...); status != http.StatusOK || got.Result == nil {
		t.Errorf("HTTP %d with %+v", status, got)
	}
}
