package era_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a server, or a gateway before it, writes around its messages does not keep clients of the other era from them.
func TestAnAnswerInAnotherDress(t *testing.T) {
	for name, dress := range map[string]func(r *http.Request, header http.Header, body []byte) []byte{
		"compressed unless asked not to": func(r *http.Request, header http.Header, body []byte) []byte {
			if r.Header.Get("Accept-Encoding") == "identity" {
				return body
			}
			header.Set("Content-Encoding", "gzip")
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write(body)
			_ = w.Close()
			return packed.Bytes()
		},
		"a mark": func(_ *http.Request, header http.Header, body []byte) []byte {
			if _, data, streamed := bytes.Cut(body, []byte("data: ")); streamed {
				body, _, _ = bytes.Cut(data, []byte("\n"))
				header.Set("Content-Type", "application/json")
			}
			return append([]byte("\ufeff"), body...)
		},
		"a type in capitals": func(_ *http.Request, header http.Header, body []byte) []byte {
			header.Set("Content-Type", strings.ToUpper(header.Get("Content-Type")))
			return body
		},
		"a parameter that is none": func(_ *http.Request, header http.Header, body []byte) []byte {
			header.Set("Content-Type", header.Get("Content-Type")+"; odata")
			return body
		},
	} {
		for _, speaks := range []eras{legacyOnly, modernOnly} {
			t.Run(fmt.Sprint(name, speaks), func(t *testing.T) {
				b, inner := newBackend(t, speaks), newBackend(t, speaks)
				b.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
					if r.Method != http.MethodPost {
						return false
					}
					w0 := httptest.NewRecorder()
					inner.Config.Handler.ServeHTTP(w0, r)
					for name, values := range w0.Header() {
						w.Header()[name] = values
					}
					w.Header().Del("Content-Length")
					data := dress(r, w.Header(), w0.Body.Bytes())
					w.WriteHeader(w0.Code)
					_, _ = w.Write(data)
					return true
				})
				body, headers := otherEra(speaks)
				if status, got := send(t, front(t, b), body, headers...); status != http.StatusOK || got.Result["content"] == nil {
					t.Errorf("HTTP %d with %+v", status, got)
				}
			})
		}
	}
}

// An error of HTTP that is no JSON-RPC reaches a client of the other era as what it is.
func TestAnErrorOfHTTPThatIsNoJSONRPC(t *testing.T) {
	for _, speaks := range []eras{legacyOnly, modernOnly} {
		for _, status := range []int{401, 413, 429, 503} {
			for kind, answer := range map[string]string{
				"text/html": "<html>slow down</html>", "text/plain": "slow down", "application/json": `{"error":"rate limited"}`,
				"application/problem+json": `{"title":"slow down"}`,
				"application/json; a":      `{"jsonrpc":"2.0","id":null,"error":{"message":"slow down"}}`,
			} {
				t.Run(fmt.Sprint(speaks, status, kind), func(t *testing.T) {
					b, endpoint := behind(t, speaks)
					body, headers := otherEra(speaks)
					send(t, endpoint, body, headers...)
					b.says("tools/call", status, answer, "Content-Type", kind, "Retry-After", "7")
					want := status
					if speaks == modernOnly && status == http.StatusRequestEntityTooLarge && strings.Contains(answer, `"error"`) {
						want = http.StatusOK // an error of the call's own
					}
					got, header, all := answerOf(t, endpoint, body, headers...)
					if got != want || want != 200 && header.Get("Retry-After") != "7" || len(all) != 1 || all[0].Error == nil {
						t.Fatalf("HTTP %d with %v and %+v", got, header, all)
					}
					says := fmt.Sprintf("the backend answers HTTP %d", status)
					if strings.Contains(answer, "rate limited") {
						says += ": rate limited"
					} else if strings.Contains(answer, `"message"`) {
						says = "slow down"
					}
					if e := all[0].Error; e.Code != -32603 || e.Message != says || string(all[0].ID) != "1" {
						t.Errorf("%s: %+v, want %q", all[0].ID, e, says)
					}
				})
			}
		}
	}
}

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
				b, endpoint := behind(t, speaks)
				b.says("tools/call", http.StatusOK, `{"jsonrpc":"2.0","id":ID,"result":`+tc.result+`}`)
				body, headers := otherEra(speaks)
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
			b, endpoint := behind(t, speaks)
			b.says("tools/call", http.StatusOK, answer)
			body, headers := otherEra(speaks)
			status, got := send(t, endpoint, body, headers...)
			if text := fmt.Sprintf("%+v", got.Error); status != http.StatusOK || got.Error == nil ||
				strings.Contains(text, "s3cr3t") || strings.Contains(text, "json") {
				t.Errorf("%s: HTTP %d with %s", answer, status, text)
			}
		}
	}
}

// Some servers answer with another spelling of an id.
func TestAnAnswerWhoseIDIsSpelledInAnotherWay(t *testing.T) {
	for _, speaks := range []eras{legacyOnly, modernOnly} {
		for _, id := range []string{"ID.0", `"ID"`, "null"} {
			b, endpoint := behind(t, speaks)
			b.says("tools/call", http.StatusOK, `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[]}}`)
			body, headers := otherEra(speaks)
			if status, got := send(t, endpoint, body, headers...); status != http.StatusOK || got.Result == nil ||
				string(got.ID) != "1" {
				t.Errorf("%s: HTTP %d with %+v", id, status, got)
			}
		}
	}
}

// The same holds for the token of a call, which is ours before a legacy server.
func TestProgressWhoseTokenIsSpelledInAnotherWay(t *testing.T) {
	for _, spelled := range []string{"ID.0", `"ID"`} {
		b, endpoint := behind(t, legacyOnly)
		b.says("tools/call", http.StatusOK,
			`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":`+spelled+"}}\n\n"+
				`data: {"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`+"\n\n")
		_, said := sendAll(t, endpoint, modern("1", "tools/call", echo, `"progressToken":"p"`),
			asModern("tools/call", "echo")...)
		if len(said) != 2 || !strings.Contains(string(said[0].Params), `"progressToken":"p"`) {
			t.Errorf("%s: the client gets %+v", spelled, said)
		}
	}
}

// Revision 2025-03-26 lets a server answer with a batch, in which something else may stand before the answer.
func TestAnAnswerBehindANotificationInABatch(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
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

// Two calls of one caller share a session, and nothing else: each goes out with the query and the headers of its own
// request.
func TestACallGoesOutWithItsOwnQueryAndHeaders(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	var mu sync.Mutex
	var got []map[string]string
	b.answers(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if from := r.Header.Get("X-Forwarded-For"); from != "127.0.0.1" {
			t.Errorf("%s comes from %q", body, from)
		}
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
	b, endpoint := behind(t, legacyOnly)
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
