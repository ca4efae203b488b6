package probe

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/target"
)

// bench is a server, and who asks it.
type bench struct {
	*Prober
	// address is where it serves.
	address string
	// config is the target of the proxy between; empty where the server itself is asked.
	config target.Config
}

func at(t *testing.T, handler http.Handler) *bench {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(func() { pipelinetest.Stop(s) })
	address := s.Listener.Addr().String()
	return &bench{address: address, Prober: asks(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	})}
}

// inMemory is a server without an address, in a bubble of synctest.
func inMemory(t *testing.T, handler http.Handler) *bench {
	t.Helper()
	door, server := NewDoor(), &http.Server{Handler: handler}
	go func() { _ = server.Serve(door) }()
	t.Cleanup(func() { _ = server.Close() })
	return &bench{Prober: asks(door.Dial)}
}

// heardAt is what a proxy knows of a backend whose pods are not known apart: when it last answered a call.
type heardAt func() time.Time

func (heardAt) Pods(context.Context) []netip.Addr  { return nil }
func (at heardAt) LastAnswer(netip.Addr) time.Time { return at() }
func (heardAt) LeaveOut([]netip.Addr)              {}
func (heardAt) Down(string, string)                {}
func (heardAt) IsBusy() bool                       { return false }

// asks asks until it has an answer.
func asks(dial func(ctx context.Context, network, address string) (net.Conn, error)) *Prober {
	return &Prober{
		Endpoint: "http://echo-proxy.team.svc:8000/mcp", Dial: dial,
		Server: runconfig.Target{
			Server:  runconfig.Server{Namespace: "team", Name: "echo"},
			Backend: runconfig.Backend{Port: 8080, Path: "/mcp"},
			Proxy:   runconfig.Proxy{Port: 8000, Path: "/mcp", Probe: &runconfig.Probe{PeriodSeconds: new(int32)}},
		},
	}
}

// through puts the real proxy between the prober and a backend.
func through(t *testing.T, backend *bench) *bench {
	t.Helper()
	return proxied(t, target.Config{
		Run: backend.Server, Backend: "http://" + backend.address, KeysDir: sessionKey(t),
	})
}

// proxied is the real proxy of a server, and who asks it behind login and policies.
func proxied(t *testing.T, config target.Config) *bench {
	t.Helper()
	to, err := target.New(config)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	end, err := to.ServePeers(t.Context(), log, make(chan error, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(time.Now()) })
	serves, _, err := to.Proxy(log)
	if err != nil {
		t.Fatal(err)
	}
	front := proxy.New(proxy.Process{Log: log}, map[string]proxy.Config{config.Run.Proxy.Path: serves})
	door := NewDoor()
	inside := door.Server(front, front.Inside())
	go func() { _ = inside.Serve(door) }()
	t.Cleanup(func() { _ = inside.Close() })
	return &bench{
		address: at(t, front).address, config: config,
		Prober: &Prober{
			Server: config.Run, Endpoint: to.Endpoint(), Dial: door.Dial, Asked: front.Asked(config.Run.Proxy.Path, false),
		},
	}
}

// free is an address at which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// sessionKey is a directory with a key of session ids.
func sessionKey(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, runconfig.SessionKey), []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func answer(status int, header, value, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(header, value)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func plain(status int) http.Handler {
	return answer(status, "Content-Type", "text/plain", "who are you?")
}
