package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// caller answers with the address that the call came from, after its body.
func caller(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = io.WriteString(w, string(body)+" from "+r.RemoteAddr)
}

// A proxy that is ready has reached a backend. What its first call then meets is
// a pod that ends, not a backend that starts.
func TestARefusedCallGoesToTheNextPod(t *testing.T) {
	old := httptest.NewServer(http.HandlerFunc(caller))
	address := old.Listener.Addr().String()
	b := front(t, Config{}, old.URL)
	_ = text(t, b.call(http.MethodOptions, "/mcp", ""))
	pipelinetest.Stop(old)

	next := httptest.NewUnstartedServer(http.HandlerFunc(caller))
	_ = next.Listener.Close()
	started := make(chan error, 1)
	time.AfterFunc(100*time.Millisecond, func() {
		var err error
		if next.Listener, err = net.Listen("tcp", address); err == nil {
			next.Start()
		}
		started <- err
	})
	response := b.call(http.MethodPost, "/mcp", "call")
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if got := text(t, response); response.StatusCode != http.StatusOK || got[:4] != "call" {
		t.Errorf("got %s and %q", response.Status, got)
	}
}

func TestNoCallBeginsOnAnOldConnection(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			events(w)("data: 1\n\n")
			<-r.Context().Done()
		}
		caller(w, r)
	}))
	stream := b.call(http.MethodGet, "/mcp", "") // outlives its connection's youth
	first := text(t, b.call(http.MethodPost, "/mcp", "x"))
	if again := text(t, b.call(http.MethodPost, "/mcp", "x")); again != first {
		t.Errorf("a call came %q, the one before it %q", again, first)
	}
	b.upstream.mu.Lock()
	b.upstream.since = time.Now().Add(-connectionLife)
	b.upstream.mu.Unlock()
	if later := text(t, b.call(http.MethodPost, "/mcp", "x")); later == first {
		t.Errorf("a call came %q again, on a connection older than %s", later, connectionLife)
	}
	if _, err := io.ReadFull(stream.Body, make([]byte, len("data: 1\n\n"))); err != nil {
		t.Errorf("the stream broke: %v", err)
	}
}

// While a pod of the backend ends it must still take the calls that the proxy
// begins on its connections: those of nodes that have not heard of its end, and
// then those of connections that were made before.
func TestTheBackendSleepsLongerThanCallsCome(t *testing.T) {
	if needed := DrainTimesOf(time.Minute).Propagation + connectionLife; podtemplate.BackendSleep < needed {
		t.Errorf("a backend takes calls for %s after its end is known, want %s", podtemplate.BackendSleep, needed)
	}
}

// A proxy that has a session may be slow to show who it is. One that has gone refuses, or is another server's.
func TestAProxyThatIsBusyIsNotTakenForOneThatIsGone(t *testing.T) {
	t.Parallel()
	secret := secretOf(t)
	ours, others := session.Follow(secret, "s", "uid-1"), session.Follow(secret, "s", "uid-2")
	for name, row := range map[string]struct {
		silent   int // connections that are taken and no more
		there    *session.Keys
		connects bool
		gone     bool
	}{
		"the second time it answers": {silent: 1, there: ours, connects: true},
		"it does not answer":         {silent: 2, there: ours},
		"another server's":           {there: others, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				for n := 0; ; n++ {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					if n >= row.silent {
						go func() { _ = tls.Server(conn, row.there.Accept()).HandshakeContext(t.Context()) }()
					}
				}
			}()
			to := Peers(netip.MustParseAddrPort(listener.Addr().String()), ours)
			to.handshake = 200 * time.Millisecond
			if row.connects {
				to.handshake = 2 * time.Second
			}
			conn, err := to.dialPeer(t.Context(), "tcp", listener.Addr().String())
			if err == nil {
				_ = conn.Close()
			}
			f := &flight{route: route{own: "x", pod: netip.MustParseAddrPort("127.0.0.1:1"), brief: true}}
			if (err == nil) != row.connects || err != nil && (!undialled(err) || f.lost(err) != row.gone) {
				t.Errorf("%v: connects %t, gone %t", err, err == nil, err != nil && f.lost(err))
			}
		})
	}
}
