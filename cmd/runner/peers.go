package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge/program"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// farSessions is how many sessions a proxy has at a time with a server elsewhere of the
// transport HTTP+SSE. Each is a connection.
const farSessions = 1000

// farPause is how long no session is begun after the server elsewhere took none: clients wait that long. A connection
// that cannot be made costs little.
const farPause = 2 * time.Second

// far is the bridge to a server elsewhere of the transport HTTP+SSE. It is in the proxy's
// own process, and serves all proxies of the server, which find the one that has a session
// by its id (docs/adr/0038-sessions-in-a-proxy.md).
type far struct {
	bridge *bridge.Bridge
	server *http.Server
}

// keys are those of the server's sessions.
func (s settings) keys() *session.Keys {
	return session.Follow(s.sessions, s.run.Proxy.SessionSecret, s.run.Server.UID)
}

// bridgeFar serves the bridge until end, and notes where; nil for a server that needs none. It tells failed
// where it cannot serve any more.
func (s *settings) bridgeFar(ctx context.Context, logger *slog.Logger, failed chan<- error) (*far, error) {
	if s.run.Remote == nil || !s.run.Remote.Bridged() {
		return nil, nil //nolint:nilnil // nothing is what is configured
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.peers)
	if err != nil {
		return nil, fmt.Errorf("listening for the other proxies: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port() //nolint:forcetypeassert // as it was asked for
	s.here = netip.AddrPortFrom(s.podIP, port)
	f := &far{bridge: bridge.New(bridge.Config{
		Server: bridge.Server{
			Open: bridge.Events(s.remote.URL, s.remote.Transport()), Junk: func() string { return "" }, LongestPause: farPause,
		},
		Sessions: farSessions, Log: logger,
	})}
	// Who has no key of ours gets no further; that is not worth a line each time.
	f.server = program.Server(f.bridge, logger, slog.LevelDebug)
	go proxy.Serve(f.server, s.keys().Listen(listener), failed)
	return f, nil
}

// end lets calls of other proxies end until a time, then ends the sessions.
func (f *far) end(until time.Time) {
	if f == nil {
		return
	}
	_ = program.Drain(f.server, f.bridge, until, 0) //nolint:errcheck // nothing is left to do about it
}
