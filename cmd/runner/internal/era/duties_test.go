package era_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
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
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(tc.headers); i += 2 {
				r.Header.Set(tc.headers[i], tc.headers[i+1])
			}
			r.Header.Set("Content-Type", "application/json")
			response, err := http.DefaultClient.Do(r)
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
