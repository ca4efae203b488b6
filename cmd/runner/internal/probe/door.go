package probe

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// Door is a way into the proxy that is open to this process alone, behind login and policies: what the server has is
// counted, and not what one caller may use of it. It needs no credential that could be stolen, since no connection
// leaves the process.
type Door struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// NewDoor makes one.
func NewDoor() *Door {
	d := &Door{conns: make(chan net.Conn), closed: make(chan struct{})}
	d.close = sync.OnceFunc(func() { close(d.closed) })
	return d
}

// Server has the proxy answer at the door: as inside does, which is Inside or Own of it.
func (d *Door) Server(front *proxy.Proxy, inside http.Handler) *http.Server {
	server := front.Server()
	server.Handler = inside
	return server
}

// Dial is for http.Transport, whatever host it asks for.
func (d *Door) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
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
func (d *Door) Accept() (net.Conn, error) {
	select {
	case conn := <-d.conns:
		return conn, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (d *Door) Close() error {
	d.close()
	return nil
}

// Addr implements net.Listener.
func (d *Door) Addr() net.Addr { return inside{} }

// inside is the address of a Door.
type inside struct{}

func (inside) Network() string { return "pipe" }
func (inside) String() string  { return "inside" }
