package era_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

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
			"tools/call", "", 503, 1,
		},
		"one with something to tell": {
			legacyOnly, 0, modern("1", "tools/call", hang, `"progressToken":"p"`),
			asModern("tools/call", "hang"), "tools/call", "notifications/progress", 200, 1,
		},
		"one whose session begins": {
			legacyOnly, 0, modern("1", "tools/list", "", ""), asModern("tools/list", ""),
			"initialize", "", 503, 0,
		},
		"one whose tools are listed": {
			legacyOnly, 0, modern("1", "tools/call", hang, ""),
			append(asModern("tools/call", "hang"), "Mcp-Param-A", "b"), "tools/list", "", 503, 0,
		},
		"a subscription that begins": {
			legacyOnly, 0, modern("1", "subscriptions/listen", `"notifications":{}`, ""),
			asModern("subscriptions/listen", ""), http.MethodGet, "", 503, 0,
		},
		"a legacy client's call": {modernOnly, 0, legacy("tools/call", hang), nil, "tools/call", "", 503, 0},
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
