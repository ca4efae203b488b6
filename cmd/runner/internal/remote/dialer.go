package remote

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// stale is how long connections are made to where a name led last while the resolver does not answer.
const stale = 5 * time.Minute

// Dialer connects to a backend by its name. A resolver of a cluster loses a question now and then, or is away for
// seconds: connections go on being made to where the name led last. A name that the resolver does not know any more
// leads nowhere. Make it with NewDialer.
type Dialer struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	last atomic.Pointer[place]
}

// place is where a name led.
type place struct {
	of string // the host:port
	to string // the address:port
	at time.Time
}

// NewDialer makes a Dialer that connects as d does.
func NewDialer(d net.Dialer) *Dialer {
	d.KeepAliveConfig = keepAlive
	return &Dialer{dial: d.DialContext}
}

// DialContext connects to a host:port. The errors are those of net.Dialer.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, address)
	last := d.last.Load()
	if unresolved(err) && last != nil && last.of == address && time.Since(last.at) < stale && ctx.Err() == nil {
		return d.dial(ctx, network, last.to)
	}
	if _, named := netip.ParseAddrPort(address); err == nil && named != nil {
		d.last.Store(&place{of: address, to: conn.RemoteAddr().String(), at: time.Now()})
	}
	return conn, err
}

// unresolved reports whether an error is of a resolver that does not answer.
func unresolved(err error) bool {
	fault, ok := errors.AsType[*net.DNSError](err)
	return ok && !fault.IsNotFound
}
