package remote

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

const (
	// Patience is how long a call that got no connection goes on trying. Nothing of it has been sent, so that it cannot
	// run twice.
	Patience = 3 * time.Second
	// FirstPause is that between the first two attempts. Each is twice the one before.
	FirstPause = 20 * time.Millisecond
	// LastPause is the longest.
	LastPause = 250 * time.Millisecond
	// byNameTime is how long the backend's name has to lead to a connection before Fallback is asked: a node drops what
	// goes to the address of a Service that it has not heard of.
	byNameTime = 500 * time.Millisecond
	// stale is how long connections are made to where a name led last while the resolver does not answer.
	stale = 5 * time.Minute
)

// Dialer connects to one backend, by its name, until it answers: a pod that ends may refuse before every node has heard
// of its end, and the name leads to another one the next time. A resolver of a cluster loses a question now and then,
// or is away for seconds: connections go on being made to where the name led last. A name that the resolver does not
// know any more leads nowhere. Make it with NewDialer.
type Dialer struct {
	// Patience is Patience, unless a test changes it.
	Patience time.Duration
	// Present is whether the last connection was made: only then do calls wait for the next one. While there is no
	// backend at all they are told at once.
	Present atomic.Bool
	// Fallback connects to the backend while its name has never led to a connection, nil for no other way. Later a refusal
	// is the truth.
	Fallback func(ctx context.Context, network string) (net.Conn, error)

	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	backend string // host:port
	whole   string // where that is dialled
	last    atomic.Pointer[resolvedAddress]
}

// resolvedAddress is where a name led.
type resolvedAddress struct {
	to string // address:port
	at time.Time
}

// NewDialer makes a Dialer that connects as d does, to a backend of this host:port by its whole name, which is the same
// where it is empty.
func NewDialer(d net.Dialer, backend, whole string) *Dialer {
	if whole == "" {
		whole = backend
	}
	d.KeepAliveConfig = keepAlive
	return &Dialer{Patience: Patience, dial: d.DialContext, backend: backend, whole: whole}
}

// DialContext connects to a host:port, once where that is not the backend's. The errors are those of net.Dialer.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address != d.backend {
		conn, err := d.dial(ctx, network, address)
		if err == nil {
			d.Present.Store(true)
		}
		return conn, err
	}
	present, end := d.Present.Load(), time.Now().Add(d.Patience)
	for pause := FirstPause; ; pause = min(2*pause, LastPause) {
		conn, err := d.dialOrFallback(ctx, network)
		if err == nil {
			d.Present.Store(true)
			return conn, nil
		}
		if _, final := errors.AsType[*Refusal](err); final || !d.Present.Load() || time.Now().Add(pause).After(end) {
			if present { // else it may have come to be there since
				d.Present.Store(false)
			}
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// dialOrFallback connects to the backend where its name leads, or by Fallback. The error is of its name.
func (d *Dialer) dialOrFallback(ctx context.Context, network string) (net.Conn, error) {
	if d.Fallback == nil || d.last.Load() != nil {
		return d.resolved(ctx, network)
	}
	byName, cancel := context.WithTimeout(ctx, byNameTime)
	defer cancel()
	conn, err := d.resolved(byName, network)
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	if other, failed := d.Fallback(ctx, network); failed == nil {
		return other, nil
	}
	if byName.Err() == nil {
		return nil, err
	}
	return d.resolved(ctx, network) // the resolver may be slow, or the node
}

// resolved connects to the backend where its name leads. Of a resolver that loses a question it asks another time, for
// who has connected to nothing yet.
func (d *Dialer) resolved(ctx context.Context, network string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, d.whole)
	if unresolved(err) && ctx.Err() == nil {
		if last := d.last.Load(); last != nil && time.Since(last.at) < stale {
			return d.dial(ctx, network, last.to)
		}
		conn, err = d.dial(ctx, network, d.whole)
	}
	if err == nil {
		d.last.Store(&resolvedAddress{to: conn.RemoteAddr().String(), at: time.Now()})
	}
	return conn, err
}

// unresolved reports whether an error is of a resolver that does not answer.
func unresolved(err error) bool {
	fault, ok := errors.AsType[*net.DNSError](err)
	return ok && !fault.IsNotFound
}
