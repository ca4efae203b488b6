package era_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const echo = `"name":"echo","arguments":{"text":"x"}`

func TestDiscoverIsAnsweredFromInitialize(t *testing.T) {
	status, got := send(t, front(t, newBackend(t, legacyOnly)), modern("1", "server/discover", "", ""),
		asModern("server/discover", "")...)
	if status != http.StatusOK {
		t.Fatalf("HTTP %d with %+v", status, got)
	}
	for name, want := range map[string]any{
		"supportedVersions": []any{"2026-07-28", "2025-11-25"}, "resultType": "complete", "instructions": "be kind",
		"ttlMs": 0.0, "cacheScope": "private",
		"_meta": map[string]any{"io.modelcontextprotocol/serverInfo": map[string]any{"name": "behind", "version": "1"}},
	} {
		if diff := cmp.Diff(want, got.Result[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// After an update another server answers, of whose sessions the one that is held is none.
func TestDiscoverTellsOfTheServerThatIsThere(t *testing.T) {
	for _, sessions := range []bool{true, false} {
		t.Run(fmt.Sprintf("sessions %t", sessions), func(t *testing.T) {
			b := newBackend(t, legacyOnly)
			var version atomic.Int64
			b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				now := fmt.Sprint(version.Load())
				m := message{}
				_ = json.Unmarshal(body, &m)
				switch {
				case m.Method == "initialize":
					if sessions {
						w.Header().Set("Mcp-Session-Id", now)
					}
					w.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprintf(w,
						`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"behind","version":%q}}}`, m.ID, now)
				case m.Method == "server/discover" && r.Header.Get("Mcp-Session-Id") == "":
					w.WriteHeader(http.StatusBadRequest)
				case sessions && r.Header.Get("Mcp-Session-Id") != now:
					w.WriteHeader(http.StatusNotFound)
				case m.ID == nil:
					w.WriteHeader(http.StatusAccepted)
				default:
					w.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
				}
				return true
			})
			endpoint := front(t, b)
			for _, now := range []int64{1, 1, 2} {
				version.Store(now)
				_, got := send(t, endpoint, modern("1", "server/discover", "", ""), asModern("server/discover", "")...)
				want := map[string]any{"io.modelcontextprotocol/serverInfo": map[string]any{
					"name":    "behind",
					"version": fmt.Sprint(now),
				}}
				if diff := cmp.Diff(want, got.Result["_meta"]); diff != "" {
					t.Errorf("version %d: %s", now, diff)
				}
			}
			begun := 3 // one to find out what the backend speaks
			if !sessions {
				begun++ // each discover begins anew
			}
			if got := len(b.got("initialize")); got != begun {
				t.Errorf("%d sessions have begun, want %d", got, begun)
			}
		})
	}
}

func TestWhatIsWrongWithAModernRequest(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	call := modern("1", "tools/call", echo, "")
	for name, tc := range map[string]struct {
		body    string
		headers []string
		status  int
		code    int
	}{
		"nothing":    {call, asModern("tools/call", "echo"), 200, 0},
		"no version": {call, []string{"Mcp-Method", "tools/call", "Mcp-Name", "echo"}, 400, -32020},
		"another version": {
			strings.ReplaceAll(call, "2026-07-28", "2026-07-29"), asModern("tools/call", "echo"), 400,
			-32020,
		},
		"a version nobody has": {
			strings.ReplaceAll(call, "2026-07-28", "2027-01-01"),
			[]string{"Mcp-Protocol-Version", "2027-01-01", "Mcp-Method", "tools/call", "Mcp-Name", "echo"},
			400, -32022,
		},
		"no version in the body": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, asModern("tools/list", ""),
			400, -32602,
		},
		"no capabilities": {
			strings.Replace(call, `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1),
			asModern("tools/call", "echo"), 400, -32602,
		},
		"another method":        {call, asModern("tools/list", "echo"), 400, -32020},
		"another name":          {call, asModern("tools/call", "fail"), 400, -32020},
		"a method that is gone": {modern("1", "ping", "", ""), asModern("ping", ""), 404, -32601},
		"one that says nothing": {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, asModern("ping", ""), 404, -32601},
		"one of no revision": {
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			[]string{"Mcp-Protocol-Version", "2027-01-01"},
			400, -32602,
		},
		"an unknown method": {modern("1", "tasks/list", "", ""), asModern("tasks/list", ""), 404, -32601},
		"an unknown resource": {
			modern("1", "resources/read", `"uri":"test://absent"`, ""),
			asModern("resources/read", "test://absent"), 200, -32602,
		},
		"state of no call": {
			modern("1", "tools/call", echo+`,"requestState":"x"`, ""), asModern("tools/call", "echo"),
			400, -32602,
		},
		"a filter that is none": {
			modern("1", "subscriptions/listen", `"notifications":7`, ""),
			asModern("subscriptions/listen", ""), 400, -32602,
		},
		"no revision it may have": {
			modern("1", "server/discover", "", ""),
			[]string{"Mcp-Protocol-Version", "2026-07-28"},
			400, -32020,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(b.got("tools/call"))
			status, got := send(t, endpoint, tc.body, tc.headers...)
			code := 0
			if got.Error != nil {
				code = got.Error.Code
			}
			if status != tc.status || code != tc.code {
				t.Errorf("HTTP %d with %+v and %+v, not HTTP %d with %d", status, got.Result, got.Error, tc.status, tc.code)
			}
			if code == -32022 && fmt.Sprint(got.Error.Data) != "map[requested:2027-01-01 supported:[2026-07-28 2025-11-25]]" {
				t.Errorf("it says %v", got.Error.Data)
			}
			if ran := len(b.got("tools/call")) - before; tc.code != 0 && ran != 0 {
				t.Error("the backend was called")
			}
		})
	}
}

// A server that says of a tool that there is no such method has the method: clients read HTTP 404 as trouble of the
// transport.
func TestAnUnknownToolIsNoTroubleOfTheTransport(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	for method, name := range map[string]string{"tools/call": "echo", "prompts/list": ""} {
		b.says(method, http.StatusOK, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"Unknown tool: absent"}}`)
		params := ""
		if name != "" {
			params = echo
		}
		status, got := send(t, endpoint, modern("1", method, params, ""), asModern(method, name)...)
		if status != http.StatusOK || got.Error == nil || got.Error.Code != -32601 ||
			got.Error.Message != "Unknown tool: absent" {
			t.Errorf("%s: HTTP %d with %+v", method, status, got.Error)
		}
	}
}

// A session that the backend does not know any more is begun again; nothing else is sent twice.
func TestWhatIsSentTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		status, sent, began, want int
	}{
		"a lost session":     {404, 2, 2, 200},
		"a server's trouble": {500, 1, 1, 500},
		"a gateway's":        {502, 1, 1, 502},
		"a refusal":          {400, 1, 1, 400},
		"no credentials":     {401, 1, 1, 401},
	} {
		t.Run(name, func(t *testing.T) {
			b, endpoint := behind(t, legacyOnly)
			if status, got := send(t, endpoint, modern("1", "tools/list", "", ""),
				asModern("tools/list", "")...); status != 200 {
				t.Fatal(got)
			}
			began := len(b.got("initialize"))
			refused := atomic.Bool{}
			b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				if !strings.Contains(string(body), "tools/call") || refused.Swap(true) {
					return false
				}
				w.WriteHeader(tc.status)
				return true
			})
			status, got := send(t, endpoint, modern("2", "tools/call", echo, ""), asModern("tools/call", "echo")...)
			if status != tc.want || len(b.got("tools/call")) != tc.sent || len(b.got("initialize"))-began != tc.began-1 {
				t.Errorf("HTTP %d with %+v after %d calls and %d sessions", status, got, len(b.got("tools/call")),
					len(b.got("initialize"))-began)
			}
		})
	}
}

func TestABackendThatBreaksOffIsNotCalledAgain(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...)
	b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !strings.Contains(string(body), "tools/call") {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	status, got := send(t, endpoint, modern("2", "tools/call", echo, ""), asModern("tools/call", "echo")...)
	if got.Error == nil || string(got.ID) != "2" || len(b.got("tools/call")) != 1 {
		t.Errorf("HTTP %d with %+v after %d calls", status, got, len(b.got("tools/call")))
	}
}

func TestAnswersThatTellNothingAboutAnEraAreNotKept(t *testing.T) {
	for _, status := range []int{401, 403, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel() // each waits until the backend is asked again
			b, endpoint := behind(t, legacyOnly)
			b.answers(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool { w.WriteHeader(status); return true })
			if got, m := send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...); got != status {
				t.Errorf("HTTP %d with %+v", got, m)
			}
			b.answers(nil)
			deadline := time.Now().Add(patience)
			for {
				got, m := send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...)
				if got == http.StatusOK {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("HTTP %d with %+v", got, m)
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// Whom the backend lets in is each caller's own matter: what one is refused, also before anything is known, takes
// nothing from another.
func TestACallerWhoIsRefusedTakesTheTranslationFromNobody(t *testing.T) {
	body, headers := modern("1", "tools/list", "", ""), asModern("tools/list", "")
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
		for _, known := range []bool{false, true} {
			if !known && status == http.StatusBadRequest {
				continue // whether the backend is of no era is not to be seen from that
			}
			t.Run(fmt.Sprintf("HTTP %d, known before: %v", status, known), func(t *testing.T) {
				b, endpoint := behind(t, legacyOnly)
				if known {
					send(t, endpoint, body, headers...)
				}
				b.answers(func(w http.ResponseWriter, r *http.Request, sent []byte) bool {
					probe := known && strings.Contains(string(sent), "server/discover")
					if probe {
						w.WriteHeader(http.StatusServiceUnavailable) // nobody finds out again
					} else if r.Header.Get("X-Api-Key") == "wrong" {
						w.WriteHeader(status)
					}
					return probe || r.Header.Get("X-Api-Key") == "wrong"
				})
				for range 3 {
					if got, m := send(t, endpoint, body, append(headers, "X-Api-Key", "wrong")...); got != status {
						t.Errorf("the one who is refused gets HTTP %d with %+v", got, m.Error)
					}
					if got, m := send(t, endpoint, body, append(headers, "X-Api-Key", "right")...); got != http.StatusOK {
						t.Errorf("the other one gets HTTP %d with %+v", got, m.Error)
					}
				}
			})
		}
	}
}

// A backend may let nobody ask, and calls are not to wait for each other's questions.
func TestWhoIsDeniedAsksOnce(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	b.answers(func(w http.ResponseWriter, _ *http.Request, sent []byte) bool {
		if !strings.Contains(string(sent), "server/discover") {
			return false
		}
		time.Sleep(100 * time.Millisecond)
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	var calls sync.WaitGroup
	for range 30 {
		calls.Go(func() { send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...) })
	}
	calls.Wait()
	// One a second; what is slow here takes as long.
	if asked := len(b.got("server/discover")); asked > 10 {
		t.Errorf("the backend was asked %d times", asked)
	}
}

func TestCallersShareNoSession(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	for _, headers := range [][]string{{"X-Api-Key", "ann"}, {"X-Api-Key", "bob"}, {"X-Api-Key", "ann"}, {}} {
		if status, got := send(t, endpoint, modern("1", "tools/call", echo, ""),
			append(asModern("tools/call", "echo"), headers...)...); status != 200 {
			t.Fatal(got)
		}
	}
	capable := strings.Replace(modern("1", "tools/call", echo, ""), `clientCapabilities":{}`,
		`clientCapabilities":{"roots":{}}`, 1)
	if status, got := send(t, endpoint, capable, asModern("tools/call", "echo")...); status != 200 {
		t.Fatal(got)
	}
	calls := b.got("tools/call")
	if calls[0].session != calls[2].session {
		t.Error("one caller has two sessions")
	}
	seen := map[string]bool{}
	for _, call := range calls {
		if call.session == "" {
			t.Error("a call has no session")
		}
		seen[call.session] = true
	}
	if len(seen) != 4 {
		t.Errorf("4 kinds of caller have %d sessions", len(seen))
	}
}

// It is told after the call has ended: it would ignore what it is told about a call that it does not know yet.
func TestALegacyBackendIsToldThatAModernClientHasLeft(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	ended := make(chan struct{})
	b.answers(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		switch {
		case strings.Contains(string(body), `"tools/call"`):
			<-r.Context().Done()
			close(ended)
			return true
		case strings.Contains(string(body), `"notifications/cancelled"`):
			select {
			case <-ended:
			case <-r.Context().Done():
				t.Error("the call goes on while the backend is told that it is cancelled")
			}
		}
		return false
	})
	desert(t, endpoint, modern("1", "tools/call", `"name":"hang"`, ""),
		func() bool { return len(b.got("tools/call")) == 1 }, asModern("tools/call", "hang")...)
	await(t, func() bool { return len(b.got("notifications/cancelled")) == 1 })
	var told, call message
	for body, into := range map[string]*message{
		b.got("notifications/cancelled")[0].body: &told,
		b.got("tools/call")[0].body:              &call,
	} {
		if err := json.Unmarshal([]byte(body), into); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(told.Params), `"requestId":`+string(call.ID)) {
		t.Errorf("%s is not about call %s", told.Params, call.ID)
	}
}

// desert sends a call and leaves when something has happened.
func desert(t *testing.T, endpoint, body string, happened func() bool, headers ...string) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() {
		await(t, happened)
		leave()
	}()
	r := requestOf(t, endpoint, body, headers...).WithContext(ctx)
	if response, err := http.DefaultClient.Do(r); err == nil {
		_ = response.Body.Close()
		t.Fatal("the call was answered")
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("it has not happened")
			return
		}
	}
}
