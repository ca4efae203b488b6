package era_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// hashes are those of the contents.
var hashes = []string{"0123456789abcdef", "fedcba9876543210"}

// inLanes is a proxy in front of two backends, each with a translator of its own.
func inLanes(
	t *testing.T, refresh func(context.Context) bool, of ...*backend,
) (upstreams []*proxy.Upstream, p *proxy.Proxy, endpoint string) {
	t.Helper()
	for i, b := range of {
		at, err := url.Parse(b.URL)
		if err != nil {
			t.Fatal(err)
		}
		u := proxy.Fixed(at)
		u.Content = proxy.Content{Hash: hashes[i], Slot: int32(i + 1), Alone: true} //nolint:gosec // few
		upstreams = append(upstreams, u)
	}
	keys, log, running := t.TempDir(), slog.New(slog.DiscardHandler), new(era.Running)
	if err := os.WriteFile(filepath.Join(keys, "current"), []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	p = proxy.New(proxy.Process{Log: log}, map[string]proxy.Config{"/mcp": {
		ServerUID: "uid-1", Own: hashes[1], Upstream: upstreams[0], Refresh: refresh, Log: log,
		Keys: session.Follow(keys, "echo-session", "uid-1"),
		Translate: func(_ *proxy.Upstream, next, send http.Handler) proxy.Translator {
			return era.New(era.Config{
				Caller: func(*http.Request) string { return "" }, Running: running, Log: log,
			}, next, send)
		},
	}})
	server := httptest.NewUnstartedServer(nil)
	server.Config = p.Server()
	server.Start()
	t.Cleanup(func() { pipelinetest.Stop(server) })
	return upstreams, p, server.URL + "/mcp"
}

// Content of one era takes over from content of the other: clients of both eras find the one that gets the calls, and
// who has a session with the other keeps it until that is gone.
func TestContentOfAnotherEraTakesOver(t *testing.T) {
	before, after := newBackend(t, legacyOnly), newBackend(t, modernOnly)
	upstreams, p, endpoint := inLanes(t, nil, before, after)
	first, second := upstreams[0], upstreams[1]
	p.Switch("/mcp", proxy.Upstreams{Active: first, Others: []*proxy.Upstream{second}, Stated: true})

	call := func(client *mcp.ClientSession, name string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := client.CallTool(ctx, &mcp.CallToolParams{
			Name: "echo", Arguments: map[string]any{"text": name},
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// to checks how many calls each has got since the last time.
	var had [2]int
	to := func(when string, want ...int) {
		t.Helper()
		for i, b := range []*backend{before, after} {
			if got := len(b.got("tools/call")); got-had[i] != want[i] {
				t.Errorf("%s: content %d got %d calls, want %d", when, i, got-had[i], want[i])
			} else {
				had[i] = got
			}
		}
	}
	legacy, newer := connect(t, endpoint, protocol.Legacy, nil), connect(t, endpoint, "", nil)
	call(legacy, "a session")
	call(newer, "translated")
	to("before", 2, 0)
	if n := len(after.received); n > 0 {
		t.Errorf("what is not to get calls yet has got %d requests", n)
	}

	p.Switch("/mcp", proxy.Upstreams{Active: second, Others: []*proxy.Upstream{first}, Stated: true})
	call(newer, "as it is")
	to("a modern client", 0, 1)
	call(legacy, "a session of before")
	to("a session of before", 1, 0)
	call(connect(t, endpoint, protocol.Legacy, nil), "a legacy client that comes")
	to("a legacy client that comes", 0, 1)

	ended := len(before.got(http.MethodDelete))
	p.Switch("/mcp", proxy.Upstreams{Active: second, Stated: true})
	for end := time.Now().Add(patience); len(before.got(http.MethodDelete)) == ended; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the session that the proxy held is not ended")
		}
	}
}

// A client of the legacy era cancels a call that is on its way at modern content, though that gets no calls any more:
// whatever era the content speaks that does.
func TestACallOfEarlierContentIsCancelled(t *testing.T) {
	for _, next := range []eras{legacyOnly, modernOnly, both} {
		a, b := newBackend(t, modernOnly), newBackend(t, next)
		called, ended := holdsCalls(a)
		upstreams, p, endpoint := inLanes(t, nil, a, b)
		p.Switch("/mcp", proxy.Upstreams{Active: upstreams[0], Others: upstreams[1:], Stated: true})
		answered := legacyCall(t, endpoint, "7", called)
		p.Switch("/mcp", proxy.Upstreams{Active: upstreams[1], Others: upstreams[:1], Stated: true})
		sendAll(t, endpoint, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`) // which eras it speaks is known
		cancelCall(t, endpoint, "7")
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatalf("%v: the server is not told", next)
		}
		<-answered
		if n := len(b.got("notifications/cancelled")); n > 0 {
			t.Errorf("%v: who does not have the call is told %d times", next, n)
		}
	}
}
