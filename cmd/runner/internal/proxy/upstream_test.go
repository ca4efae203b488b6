package proxy

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
)

// While the process runs another upstream may take the place of the one that a call has been routed to. The call ends
// there.
func TestACallEndsWhereItWasRoutedTo(t *testing.T) {
	finish := make(chan struct{})
	backend := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); string(body) != "slow" {
				_, _ = io.WriteString(w, name)
				return
			}
			send := events(w)
			send("data: begun at " + name + "\n\n")
			<-finish
			send("data: done at " + name + "\n\n")
		}))
		t.Cleanup(func() { pipelinetest.Stop(s) })
		return s
	}
	before, after := backend("before"), backend("after")
	secret := secretOf(t)
	b := front(t, (&backends{t: t, pods: []*pod{{Server: before}}}).sealed(secret), before.URL)
	stream := bufio.NewReader(b.call(http.MethodPost, "/mcp", "slow").Body)
	if got := nextEvent(t, stream); got != "data: begun at before\n\n" {
		t.Fatalf("it begins with %q", got)
	}
	next := fixed(t, after.URL)
	next.Hash = "fedcba9876543210"
	b.proxy.Switch("/mcp", Upstreams{Active: next})
	if got := text(t, b.call(http.MethodPost, "/mcp", "x")); got != "after" {
		t.Errorf("the next call is answered by %q", got)
	}
	close(finish)
	if got := nextEvent(t, stream); got != "data: done at before\n\n" {
		t.Errorf("it goes on with %q", got)
	}
	pipelinetest.Stop(before)
	if got, _ := counts(t, b.proxy); got["backend_reachable"] != 1 || !next.reachable() {
		t.Errorf("of the next one: %v", got)
	}
	if got := text(t, b.call(http.MethodPost, "/mcp", strings.Repeat("x", 2*longestDirect))); got != "after" {
		t.Errorf("a long call is answered by %q", got)
	}
}
