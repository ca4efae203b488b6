package era_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
				body, headers := modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")
				if speaks == modernOnly {
					body, headers = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+echo+`}}`, nil
				}
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
					b := newBackend(t, speaks)
					endpoint := front(t, b)
					body, headers := modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")
					if speaks == modernOnly {
						body, headers = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+echo+`}}`, nil
					}
					send(t, endpoint, body, headers...)
					b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
						m := message{}
						if _ = json.Unmarshal(body, &m); m.Method != "tools/call" {
							return false
						}
						w.Header().Set("Content-Type", kind)
						w.Header().Set("Retry-After", "7")
						w.WriteHeader(status)
						_, _ = io.WriteString(w, answer)
						return true
					})
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
