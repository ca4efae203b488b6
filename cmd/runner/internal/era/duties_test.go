package era_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

const traced = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01","tracestate":"a=b","baggage":"c=d"`

// A trace goes on behind the proxy, whichever eras meet (MCP specification 2026-07-28, basic/index, _meta: SEP-414).
func TestTraceContextPasses(t *testing.T) {
	legacy := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + echo + `,"_meta":{` + traced + `}}}`
	for name, tc := range map[string]struct {
		speaks  eras
		body    string
		headers []string
	}{
		"modern to legacy": {legacyOnly, modern("1", "tools/call", echo, traced), asModern("tools/call", "echo")},
		"legacy to modern": {modernOnly, legacy, []string{"Mcp-Protocol-Version", "2025-11-25"}},
		"as it is":         {both, modern("1", "tools/call", echo, traced), asModern("tools/call", "echo")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, tc.speaks)
			status, got := send(t, front(t, b), tc.body, append(tc.headers, "Traceparent", "00-1-2-01")...)
			calls := b.got("tools/call")
			if status != http.StatusOK || len(calls) != 1 {
				t.Fatalf("HTTP %d with %+v after %d calls", status, got.Error, len(calls))
			}
			for member := range strings.SplitSeq(traced, ",") {
				if !strings.Contains(calls[0].body, member) {
					t.Errorf("the server gets %s, without %s", calls[0].body, member)
				}
			}
			if calls[0].trace != "00-1-2-01" {
				t.Errorf("the header says %q", calls[0].trace)
			}
		})
	}
}

// The proxy keeps no answer, whatever a server says of how long one stands and for whom: each client has its own from
// the server. What a modern server says passes, what nobody says of a legacy one is the least, and a legacy client is
// told nothing.
func TestNothingIsCached(t *testing.T) {
	for name, tc := range map[string]struct {
		speaks  eras
		ttl     any
		scope   any
		body    string
		headers []string
	}{
		"of a server of both eras": {both, 60000.0, "public", modern("1", "tools/list", "", ""), asModern("tools/list", "")},
		"of a legacy server": {
			legacyOnly, 0.0, "private", modern("1", "tools/list", "", ""),
			asModern("tools/list", ""),
		},
		"of a modern server": {modernOnly, nil, nil, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, tc.speaks)
			endpoint := front(t, b)
			send(t, endpoint, tc.body, tc.headers...) // finds out what the server speaks
			before := len(b.got("tools/list"))
			b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				if tc.speaks == legacyOnly || !strings.Contains(string(body), `"tools/list"`) {
					return false
				}
				id, _, _ := strings.Cut(string(body[strings.Index(string(body), `"id":`)+5:]), ",")
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+
					`,"result":{"resultType":"complete","tools":[],"ttlMs":60000,"cacheScope":"public"}}`)
				return true
			})
			for i, caller := range []string{"ann", "ann", "bob"} {
				status, got := send(t, endpoint, tc.body, append(tc.headers, "X-Api-Key", caller)...)
				if status != http.StatusOK || got.Result["ttlMs"] != tc.ttl || got.Result["cacheScope"] != tc.scope {
					t.Errorf("HTTP %d with %+v", status, got.Result)
				}
				if n := len(b.got("tools/list")) - before; n != i+1 {
					t.Errorf("%d requests reach the server after %d", n, i+1)
				}
			}
		})
	}
}

// Load balancers end streams that are silent (MCP specification 2026-07-28, basic/transports/streamable-http, receiving
// messages).
func TestIdleStreamsAreKeptAlive(t *testing.T) {
	const progress = `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":TOKEN}}`
	call, asCall := modern("1", "tools/call", echo, `"progressToken":"p"`), asModern("tools/call", "echo")
	legacy := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + echo + `}}`
	for name, tc := range map[string]struct {
		speaks  eras
		body    string
		headers []string
		says    string // of the server, about a call
	}{
		"a subscription": {
			legacyOnly,
			modern("1", "subscriptions/listen", `"notifications":{}`, ""), asModern("subscriptions/listen", ""), "",
		},
		"a call that has told its progress":            {legacyOnly, call, asCall, progress},
		"a call whose server keeps its stream alive":   {legacyOnly, call, asCall, ":"},
		"a call whose server is silent":                {legacyOnly, call, asCall, ""},
		"a legacy client's call, its server is silent": {modernOnly, legacy, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, tc.speaks)
			endpoint, _ := drainable(t, b, 100*time.Millisecond)
			b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if !strings.Contains(string(body), `"tools/call"`) {
					return false
				}
				_, after, _ := strings.Cut(string(body), `"progressToken":`)
				token, _, _ := strings.Cut(after, "}")
				if tc.says != "" {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, strings.Replace(tc.says, "TOKEN", token, 1)+"\n\n")
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
				return true
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			response, err := http.DefaultClient.Do(requestOf(t, endpoint, tc.body, tc.headers...).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			lines, comments := bufio.NewScanner(response.Body), 0
			for comments < 2 && lines.Scan() {
				if strings.HasPrefix(lines.Text(), ":") {
					comments++
				}
			}
			if comments < 2 {
				t.Errorf("it ends after %d comments: %v", comments, lines.Err())
			}
		})
	}
}

// A call that a drain cannot wait for ends in the answer that says so, whatever it waits for, and never in nothing: a
// client would take HTTP 200 for the sign that it ran.
func TestWhatIsTranslatedWhileADrainEndsIsTold(t *testing.T) {
	legacy := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
	}
	const hang = `"name":"hang","arguments":{}`
	for name, tc := range map[string]struct {
		speaks    eras
		keepAlive time.Duration
		body      string
		headers   []string
		hangs     string // the method that the backend does not answer
		says      string // before that
		status    int
		cancelled int
	}{
		"a modern client's call": {
			legacyOnly, 0, modern("1", "tools/call", hang, ""), asModern("tools/call", "hang"),
			"tools/call", "", 200, 1,
		},
		"one with something to tell": {
			legacyOnly, 0, modern("1", "tools/call", hang, `"progressToken":"p"`),
			asModern("tools/call", "hang"), "tools/call", "notifications/progress", 200, 1,
		},
		"one whose session begins": {
			legacyOnly, 0, modern("1", "tools/list", "", ""), asModern("tools/list", ""),
			"initialize", "", 200, 0,
		},
		"one whose tools are listed": {
			legacyOnly, 0, modern("1", "tools/call", hang, ""),
			append(asModern("tools/call", "hang"), "Mcp-Param-A", "b"), "tools/list", "", 200, 0,
		},
		"a subscription that begins": {
			legacyOnly, 0, modern("1", "subscriptions/listen", `"notifications":{}`, ""),
			asModern("subscriptions/listen", ""), http.MethodGet, "", 503, 0,
		},
		"a legacy client's call": {modernOnly, 0, legacy("tools/call", hang), nil, "tools/call", "", 200, 0},
		"a legacy client's initialize": {
			modernOnly, 0,
			legacy("initialize", `"protocolVersion":"2025-11-25","capabilities":{}`), nil, "server/discover", "", 503, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, tc.speaks)
			endpoint, drain := drainable(t, b, tc.keepAlive)
			// Finds out what the backend speaks.
			if tc.speaks == legacyOnly {
				send(t, endpoint, modern("0", "tools/list", "", ""), append(asModern("tools/list", ""), "X-Api-Key", "another")...)
			} else {
				send(t, endpoint, legacy("tools/list", ""))
			}
			hangs := make(chan struct{}, 1)
			b.answers(hanging(tc.hangs, tc.says, func() { hangs <- struct{}{} }))
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				<-hangs
				drain(100 * time.Millisecond)
			}()
			status, got := send(t, endpoint, tc.body, tc.headers...)
			if status != tc.status || got.Error == nil || got.Error.Code != proxy.CodeDraining ||
				tc.status == 200 && string(got.ID) != "1" {
				t.Errorf("HTTP %d with id %s and %+v", status, got.ID, got.Error)
			}
			<-drained
			if n := len(b.got("notifications/cancelled")); n != tc.cancelled {
				t.Errorf("the backend is told %d times that nobody waits, want %d", n, tc.cancelled)
			}
		})
	}
}

// hanging does not answer a method, of MCP or of HTTP, after it has said something about a call with a progress token.
func hanging(method, says string, hangs func()) func(w http.ResponseWriter, r *http.Request, body []byte) bool {
	return func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		m := message{}
		if _ = json.Unmarshal(body, &m); m.Method != method && r.Method != method {
			return false
		}
		if says != "" {
			_, after, _ := strings.Cut(string(m.Params), `"progressToken":`)
			token, _, _ := strings.Cut(after, "}")
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","method":"`+says+`","params":{"progress":1,"progressToken":`+
				token+"}}\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		hangs()
		<-r.Context().Done()
		return true
	}
}

// No client comes back to a proxy that ends, so that nothing waits for the answer to a server's question.
func TestADrainWaitsForNoQuestion(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint, drain := drainable(t, b, 0)
	if status, got := send(t, endpoint, asking("1", ""), asModern("tools/call", "ask")...); status != http.StatusOK ||
		got.Result["resultType"] != "input_required" {
		t.Fatalf("HTTP %d with %+v", status, got)
	}
	began := time.Now()
	drain(2 * patience)
	if took := time.Since(began); took > patience {
		t.Errorf("it takes %s", took)
	}
}

type answer struct {
	status int
	got    message
}

// legacyCall makes a call, and returns once the server has it.
func legacyCall(t *testing.T, endpoint, id string, called <-chan struct{}, headers ...string) <-chan answer {
	t.Helper()
	answered := make(chan answer, 1)
	go func() {
		status, got := send(t, endpoint, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{`+echo+`}}`,
			headers...)
		answered <- answer{status, got}
	}()
	<-called
	return answered
}

func cancelCall(t *testing.T, endpoint, id string, headers ...string) {
	t.Helper()
	if status, _ := sendAll(t, endpoint,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`,
		headers...); status != http.StatusAccepted {
		t.Errorf("HTTP %d", status)
	}
}

// holdsCalls has a backend take calls, of which it tells called, and answer none before its request ends.
func holdsCalls(b *backend) (called, ended chan struct{}) {
	called, ended = make(chan struct{}, 10), make(chan struct{}, 10)
	b.answers(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		m := message{}
		if _ = json.Unmarshal(body, &m); m.Method != "tools/call" {
			return false
		}
		called <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
		return true
	})
	return called, ended
}

// A modern server is told by the end of the request that a legacy client has cancelled its call, and by nothing of
// another client.
func TestALegacyClientCancelsACallOfAModernServer(t *testing.T) {
	b, endpoint := behind(t, modernOnly)
	called, ended := holdsCalls(b)
	call := func(id string, headers ...string) <-chan answer {
		return legacyCall(t, endpoint, id, called, headers...)
	}
	cancel := func(id string, headers ...string) { cancelCall(t, endpoint, id, headers...) }
	answered := call("7", "X-Api-Key", "ann")
	cancel("7", "X-Api-Key", "bob")
	cancel("7", "X-Api-Key", "ann", "User-Agent", "another")
	cancel("8", "X-Api-Key", "ann")
	select {
	case got := <-answered:
		t.Fatalf("it ended without its client: %+v", got)
	case <-time.After(300 * time.Millisecond):
	}
	cancel(`"7"`, "X-Api-Key", "ann") // ids are the same however they are spelled
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the server is not told")
	}
	if got := <-answered; got.status != http.StatusOK || got.got.Error == nil || string(got.got.ID) != "7" {
		t.Errorf("the client gets %+v", got)
	}
	first, second := call("9"), call("9")
	cancel("9") // of one of two that look the same
	select {
	case got := <-first:
		t.Errorf("one of two ended: %+v", got)
	case got := <-second:
		t.Errorf("one of two ended: %+v", got)
	case <-time.After(300 * time.Millisecond):
	}
	b.CloseClientConnections()
	<-first
	<-second
}
