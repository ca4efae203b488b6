package remote

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Each row dials once: says are the answers to what that asks, in their order, and nil is a connection.
func TestABackendIsDialledWhereItsNameLeads(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	at := listener.Addr().String()
	const backend, whole = "backend:80", "backend.team.svc.cluster.local.:80"
	away, gone := &net.DNSError{Err: "i/o timeout", IsTimeout: true}, &net.DNSError{Err: "no such host", IsNotFound: true}
	refused, barred := syscall.ECONNREFUSED, &Refusal{Reason: NotMCP}
	d := NewDialer(net.Dialer{}, backend, whole)
	connect := d.dial
	for _, row := range []struct {
		name, address string
		says          []error
		asked         []string
		earlier       time.Duration
		fails         error
	}{
		{name: "nothing yet", address: backend, says: []error{refused}, asked: []string{whole}, fails: refused},
		{
			name: "the resolver is away for long", address: backend, says: []error{away, away}, asked: []string{whole, whole},
			fails: away,
		},
		{name: "it loses a question", address: backend, says: []error{away, nil}, asked: []string{whole, whole}},
		{name: "it is away", address: backend, says: []error{away, nil}, asked: []string{whole, at}},
		{name: "a pod ends", address: backend, says: []error{refused, refused, nil}, asked: []string{whole, whole, whole}},
		{name: "a pod's address", address: at, says: []error{refused}, asked: []string{at}, fails: refused},
		{name: "no such name", address: backend, says: []error{gone, nil}, asked: []string{whole, whole}},
		{
			name: "what led there long ago", address: backend, earlier: stale, says: []error{away, away, nil},
			asked: []string{whole, whole, whole},
		},
		{
			name: "it may not be called", address: backend, says: []error{barred}, asked: []string{whole},
			fails: barred,
		},
	} {
		if last := d.last.Load(); last != nil {
			d.last.Store(&resolvedAddress{last.to, last.at.Add(-row.earlier)})
		}
		var asked []string
		d.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			asked = append(asked, address)
			if n := len(asked); n > len(row.says) || row.says[n-1] != nil {
				return nil, &net.OpError{Op: "dial", Err: row.says[min(n, len(row.says))-1]}
			}
			return connect(ctx, network, at)
		}
		conn, err := d.DialContext(t.Context(), "tcp", row.address)
		if err == nil {
			_ = conn.Close()
		}
		if row.fails == nil && err != nil || row.fails != nil && !errors.Is(err, row.fails) {
			t.Errorf("%s: %v, want %v", row.name, err, row.fails)
		}
		if !slices.Equal(asked, row.asked) {
			t.Errorf("%s: dials %q, want %q", row.name, asked, row.asked)
		}
	}
}

// A node may drop what is sent to the address of a Service that it has not heard of, and a resolver may be slow.
func TestABackendIsDialledByTheFallbackUntilItsNameHasLedToIt(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	gone := errors.New("no pod")
	for name, row := range map[string]struct {
		dropped           int
		led               bool
		fallback, finally error
	}{
		"there is a pod":                    {dropped: 9},
		"there is none, and the name tells": {dropped: 1, fallback: gone},
		"its name has led there":            {led: true, finally: syscall.ECONNREFUSED},
		"there is none":                     {dropped: 1, fallback: gone, finally: syscall.ECONNREFUSED},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := NewDialer(net.Dialer{}, "backend:80", "")
			d.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				if row.dropped--; row.dropped >= 0 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return here, row.finally
			}
			if row.led {
				d.last.Store(&resolvedAddress{})
			}
			d.Fallback = func(context.Context, string) (net.Conn, error) { return there, row.fallback }
			if conn, err := d.DialContext(t.Context(), "tcp", "backend:80"); !errors.Is(err, row.finally) {
				t.Errorf("got %v, %v", conn, err)
			}
		})
	}
}
