package proxy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// keysOf are those of a Secret with one entry, none without.
func keysOf(t *testing.T, entry string) *session.Keys {
	t.Helper()
	dir := t.TempDir()
	if entry != "" {
		if err := os.WriteFile(filepath.Join(dir, runconfig.SessionKey), []byte(entry), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return session.Follow(dir, "echo-session", "uid-1")
}

// A bridge that is closed is called by each request that a proxy sends, and by nothing that a client adds. What is no
// bridge of ours is shown nothing.
func TestWhatProvesAProxyGoesToBridgesAlone(t *testing.T) {
	keys := keysOf(t, strings.Repeat("k", 32))
	sums, err := keys.Sums()
	if err != nil {
		t.Fatal(err)
	}
	sum := sums[0]
	for name, tc := range map[string]struct {
		content Content
		keys    *session.Keys
		shown   bool
	}{
		"a bridge":                         {Content{Bridged: true, Shown: true}, keys, true},
		"a bridge among other pods":        {Content{Bridged: true}, keys, false},
		"a server of the user's":           {Content{}, keys, false},
		"a bridge, and there is no key":    {Content{Bridged: true, Shown: true}, keysOf(t, ""), false},
		"a bridge, and keys are not known": {Content{Bridged: true, Shown: true}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			saw := map[string]string{}
			b := serve(t, Config{Keys: tc.keys}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				is := "nothing"
				bridge.Closed(sum, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { is = "ours" })).
					ServeHTTP(new(discarding), r.Clone(r.Context()))
				if is == "nothing" && r.Header[protocol.HeaderProxy] != nil {
					is = "what a client says"
				}
				mu.Lock()
				defer mu.Unlock()
				saw[r.Method] = is
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			}))
			b.upstream.Bridged, b.upstream.Shown = tc.content.Bridged, tc.content.Shown
			want := map[bool]string{true: "ours", false: "nothing"}[tc.shown]
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				body := map[string]string{http.MethodPost: `{"jsonrpc":"2.0","id":1,"method":"ping"}`}[method]
				response := b.call(method, "/mcp", body, protocol.HeaderProxy, "made-up", "Content-Type", "application/json",
					"Accept", "application/json, text/event-stream")
				if said := text(t, response); strings.Contains(said, sum) || saw[method] != want {
					t.Errorf("%s: it sees %q, want %q: %s", method, saw[method], want, said)
				}
				if response.Header[protocol.HeaderProxy] != nil {
					t.Errorf("%s: the client is told %q", method, response.Header)
				}
			}
		})
	}
}

// discarding is nobody who reads an answer.
type discarding struct{ header http.Header }

func (d *discarding) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}
func (*discarding) Write(p []byte) (int, error) { return len(p), nil }
func (*discarding) WriteHeader(int)             {}

// A bridge that does not take the proxy is none of the client's doing, and no other server's 421.
func TestABridgeThatTakesNoProxy(t *testing.T) {
	none := bridge.Closed("", http.NotFoundHandler())
	strange := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusMisdirectedRequest)
	})
	for name, tc := range map[string]struct {
		backend http.Handler
		keys    *session.Keys
		says    string
	}{
		"another key": {
			none, keysOf(t, strings.Repeat("k", 32)), "with the key in the Secret echo-session: they were made with another",
		},
		"no key":        {none, keysOf(t, ""), "the Secret echo-session has no key"},
		"another's 421": {strange, keysOf(t, strings.Repeat("k", 32)), ""},
	} {
		b := serve(t, Config{Keys: tc.keys}, tc.backend)
		b.upstream.Bridged, b.upstream.Shown = true, true
		response := b.call(http.MethodPost, "/mcp", initialize, "Content-Type", "application/json")
		if tc.says == "" {
			if response.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("%s: HTTP %d", name, response.StatusCode)
			}
			continue
		}
		wantFault(t, response, http.StatusServiceUnavailable, CodeNoSessions, tc.says)
	}
}
