package proxy

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// What begins goes past a pod that does not answer as long as another one does, and the sessions there stay there. A
// question of the process's own goes to the pod that it names, and nobody else's does.
func TestAPodThatDoesNotAnswerIsLeftOut(t *testing.T) {
	pods := newBackends(t, 3)
	b := pods.before(secretOf(t))
	asked := b.proxy.Asked("/mcp", false)
	known := asked.Pods(t.Context())
	if len(known) != 3 {
		t.Fatalf("it knows %v", known)
	}
	modern := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}
	sessions := map[string]string{}
	for range 6 {
		id, at := b.open()
		sessions[at] = id
	}
	begin := func() (at []string) {
		for range 6 {
			_, pod := b.open(protocol.HeaderPod, known[0].String())
			at = append(at, pod, answered(t, b.call(http.MethodPost, "/mcp", "call", modern...))["pod"])
		}
		slices.Sort(at)
		return slices.Compact(at)
	}
	all := []string{"127.0.0.11", "127.0.0.12", "127.0.0.13"}
	if at := begin(); !slices.Equal(at, all) {
		t.Errorf("before, it begins at %v", at)
	}
	asked.LeaveOut(known[:1])
	if at := begin(); !slices.Equal(at, all[1:]) {
		t.Errorf("with one out, it begins at %v", at)
	}
	if at := answered(t, b.in(sessions[all[0]], http.MethodPost, "hello"))["pod"]; at != all[0] {
		t.Errorf("a session of that one is called at %s", at)
	}
	b.aQuestionGoesToItsPod(append(all, "127.0.0.99"), modern)
	asked.LeaveOut(known)
	if at := begin(); !slices.Equal(at, all) {
		t.Errorf("with all out, it begins at %v", at)
	}
	if err := b.server.Shutdown(t.Context()); err != nil { // the calls have ended
		t.Fatal(err)
	}
	for i, pod := range known {
		if asked.LastAnswer(pod).IsZero() || asked.LastAnswer(netip.Addr{}).IsZero() {
			t.Errorf("pod %d answered at %v, and any at %v", i, asked.LastAnswer(pod), asked.LastAnswer(netip.Addr{}))
		}
	}
}

// aQuestionGoesToItsPod asks pods, of which the last is none.
func (b *bench) aQuestionGoesToItsPod(pods, modern []string) {
	b.t.Helper()
	for _, body := range []string{initialize, "call"} {
		for i, pod := range pods {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
			if r.Header.Set(protocol.HeaderPod, pod); body == "call" {
				r.Header.Set(modern[0], modern[1])
				r.Header.Set(modern[2], modern[3])
			}
			if i == len(pods)-1 {
				pod = "NotAsked"
			}
			w := httptest.NewRecorder()
			if b.proxy.Inside().ServeHTTP(w, r); !strings.Contains(w.Body.String(), pod) {
				b.t.Errorf("a question to %s is answered with %s", pods[i], w.Body)
			}
		}
	}
}
