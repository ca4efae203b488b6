package remote

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestConnectionsAreMadeWhileTheResolverIsAway(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	var says error
	resolved := NewDialer(net.Dialer{})
	connect := resolved.dial
	resolved.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, err := netip.ParseAddrPort(address); err != nil {
			if says != nil {
				return nil, &net.OpError{Op: "dial", Net: network, Err: says}
			}
			address = strings.Replace(address, "backend", "127.0.0.1", 1)
		}
		return connect(ctx, network, address)
	}
	away, gone := &net.DNSError{Err: "i/o timeout", IsTimeout: true}, &net.DNSError{Err: "no such host", IsNotFound: true}
	for _, row := range []struct {
		name, host string
		says       error
		earlier    time.Duration
		fails      error
	}{
		{"at first", "backend", away, 0, away},
		{"the resolver answers", "backend", nil, 0, nil},
		{"it is away", "backend", away, 0, nil},
		{"another name", "other", away, 0, away},
		{"no such name", "backend", gone, 0, gone},
		{"it is away for long", "backend", away, stale, away},
	} {
		if last := resolved.last.Load(); last != nil {
			resolved.last.Store(&place{last.of, last.to, last.at.Add(-row.earlier)})
		}
		says = row.says
		conn, err := resolved.DialContext(t.Context(), "tcp", net.JoinHostPort(row.host, port))
		if err == nil {
			_ = conn.Close()
		}
		if row.fails == nil && err != nil || row.fails != nil && !errors.Is(err, row.fails) {
			t.Errorf("%s: %v, want %v", row.name, err, row.fails)
		}
	}
}
