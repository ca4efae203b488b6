package main

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// door is a way into the proxy that is open to this process alone, behind login and policies: what the server has is
// counted, and not what one caller may use of it. It needs no credential that could be stolen, since no connection
// leaves the process.
type door struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newDoor() *door {
	d := &door{conns: make(chan net.Conn), closed: make(chan struct{})}
	d.close = sync.OnceFunc(func() { close(d.closed) })
	return d
}

// serves has the proxy answer at the door.
func (d *door) serves(front *proxy.Proxy) *http.Server {
	server := front.Server()
	server.Handler = front.Inside()
	return server
}

// dial is for http.Transport, whatever host it asks for.
func (d *door) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case d.conns <- theirs:
		return ours, nil
	case <-d.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case conn := <-d.conns:
		return conn, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.close()
	return nil
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr { return inside{} }

// inside is the address of a door.
type inside struct{}

func (inside) Network() string { return "pipe" }
func (inside) String() string  { return "inside" }
