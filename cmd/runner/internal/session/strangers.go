package session

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// Bounds of connections on which no key has been shown. Who has none can open them too.
const (
	// maxStrangers is how many there are at a time. An address has at most half, and where several have all, one more ends
	// the one that has waited longest: so other proxies, whose handshakes take milliseconds, get through.
	maxStrangers = 1024
	// maxShown is how many bytes are read of one. A proxy's handshake is less than a tenth of it.
	maxShown = 16 << 10
	// shownTime is how long one may take.
	shownTime = 10 * time.Second
)

// errShown is the error of a handshake that is longer than maxShown.
var errShown = errors.New("the handshake is too long")

// Listen accepts connections of the server's other proxies, by TLS with the keys of that moment. How much the
// connections take of others is bounded: those above the bounds of their address are closed at once.
func (k *Keys) Listen(from net.Listener) net.Listener {
	return &peers{Listener: from, config: k.Accept(), places: share.New(maxStrangers, share.Half(maxStrangers))}
}

type peers struct {
	net.Listener
	config *tls.Config
	places *share.Places // of strangers

	mu    sync.Mutex
	waits list.List // of strangers, the oldest first
}

// stranger is a connection that has a place.
type stranger struct {
	net.Conn
	leave func()
}

// Accept implements net.Listener.
func (p *peers) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, err := p.admit(conn)
		if err != nil {
			_ = conn.Close() //nolint:errcheck // nothing was sent
			continue
		}
		shown := &shownConn{Conn: conn}
		return &peerConn{Conn: tls.Server(shown, p.config), stranger: shown, leave: leave}, nil
	}
}

// admit has a connection wait among the strangers. It ends the one that has waited longest where there is no place for
// any.
func (p *peers) admit(conn net.Conn) (leave func(), err error) {
	left, err := p.places.Take(budget.Address(conn.RemoteAddr().String()), 1)
	if errors.Is(err, share.ErrAll) && p.end() {
		left, err = p.places.Take(budget.Address(conn.RemoteAddr().String()), 1)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	waits := p.waits.PushBack(stranger{conn, left})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waits.Remove(waits) // unless it has been ended
		left()
	}, nil
}

// end ends the connection that has waited longest. It is false where none waits.
func (p *peers) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.waits.Front()
	if first == nil {
		return false
	}
	oldest := p.waits.Remove(first).(stranger) //nolint:forcetypeassert // admit puts nothing else there
	_ = oldest.Close()                         //nolint:errcheck // nothing was sent
	oldest.leave()
	return true
}

// peerConn is a connection that leaves the strangers at the end of its handshake. To look whose key was shown is not
// enough: a certificate can be shown by who does not have its key, and the signature comes behind it.
type peerConn struct {
	*tls.Conn
	stranger *shownConn
	leave    func()
	shake    sync.Once
	failed   error
}

// Read implements net.Conn.
func (c *peerConn) Read(p []byte) (int, error) {
	if err := c.known(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *peerConn) Write(p []byte) (int, error) {
	if err := c.known(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *peerConn) known() error {
	c.shake.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shownTime)
		defer cancel()
		if c.failed = c.HandshakeContext(ctx); c.failed == nil {
			c.stranger.known.Store(true)
			c.leave()
		}
	})
	return c.failed
}

// Close implements net.Conn.
func (c *peerConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// shownConn reads no more than maxShown until its other end is known.
type shownConn struct {
	net.Conn
	known atomic.Bool
	read  int
}

// Read implements net.Conn. It returns errShown.
func (c *shownConn) Read(p []byte) (int, error) {
	if c.known.Load() {
		return c.Conn.Read(p)
	}
	if c.read >= maxShown {
		return 0, errShown
	}
	n, err := c.Conn.Read(p[:min(len(p), maxShown-c.read)])
	c.read += n
	return n, err
}
