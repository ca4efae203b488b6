package target

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge/program"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// maxSessions is how many sessions a proxy has at a time with a server elsewhere of the
// transport HTTP+SSE. Each is a connection.
const maxSessions = 1000

// longestPause is how long no session is begun after the server elsewhere took none: clients wait that long. A
// connection that cannot be made costs little.
const longestPause = 2 * time.Second

// ServePeers serves the bridge to a server elsewhere of the transport HTTP+SSE, and has calls go there. It comes before
// Proxy. The bridge is in the proxy's own process, and serves all proxies of the server, which find the one that has a
// session by its id (docs/adr/0038-sessions-in-a-proxy.md). ServePeers tells failed where it cannot serve any more. End
// lets calls of other proxies end until a time, then ends the sessions. For a server that needs no bridge nothing is
// done.
func (t *Target) ServePeers(
	ctx context.Context, log *slog.Logger, failed chan<- error,
) (end func(until time.Time), err error) {
	if t.config.Run.Remote == nil || !t.config.Run.Remote.Bridged() {
		return func(time.Time) {}, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", t.config.Peers)
	if err != nil {
		return nil, fmt.Errorf("listening for the other proxies: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port() //nolint:forcetypeassert // as it was asked for
	t.upstream = proxy.Peers(netip.AddrPortFrom(t.podIP, port), t.keys)
	b := bridge.New(bridge.Config{
		Server: bridge.Server{
			Open: bridge.Events(t.remote.URL, t.remote.Transport()), Junk: func() string { return "" },
			LongestPause: longestPause,
		},
		Sessions: maxSessions, Log: log,
	})
	// Who has no key of ours gets no further; that is not worth a line each time.
	server := program.Server(b, log, slog.LevelDebug)
	go proxy.Serve(server, t.keys.Listen(listener), failed)
	return func(until time.Time) {
		_ = program.Drain(server, b, until, 0) //nolint:errcheck // nothing is left to do about it
	}, nil
}
