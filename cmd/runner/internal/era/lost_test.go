package era_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

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
				b := newBackend(t, legacyOnly)
				endpoint := front(t, b)
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
			b := newBackend(t, legacyOnly)
			endpoint := front(t, b)
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
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
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
