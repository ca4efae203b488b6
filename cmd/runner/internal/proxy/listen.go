package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

const (
	// silence is how long a client may leave what it was sent without a word, whether it is gone or reads nothing. A
	// client that nothing is sent to is asked for a sign of life as often as Go does it (net.KeepAliveConfig), which comes
	// to the same time.
	silence = 150 * time.Second
	// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall lacks. Connections have that of their listener.
	tcpUserTimeout = 18
)

// Listen listens for clients. Without it a client that has vanished would hold the stream it is sent, and what the
// kernel keeps of it, for a quarter of an hour, and one that reads nothing for ever.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return listen(ctx, address, silence)
}

// Serve serves until the server is closed. It tells failed where it cannot serve any more.
func Serve(server *http.Server, listener net.Listener, failed chan<- error) {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		failed <- err
	}
}

func listen(ctx context.Context, address string, silence time.Duration) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var failed error
		err := conn.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
		})
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("limiting how long clients may be silent: %w", err)
		}
		return nil
	}}
	return config.Listen(ctx, "tcp", address)
}
