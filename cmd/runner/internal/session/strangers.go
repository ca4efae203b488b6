package session

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// Bounds of connections on which no key has been shown. Who has none can open them too.
const (
	// maxStrangers is how many there are at a time. An address has at most half, so that the other proxies get through.
	maxStrangers = 1024
	// maxShown is how many bytes are read of one. A proxy's handshake is less than a tenth of it.
	maxShown = 16 << 10
	// shownTime is how long one may take.
	shownTime = 10 * time.Second
)

// errShown is the error of a handshake that is longer than maxShown.
var errShown = errors.New("the handshake is too long")

// Listen accepts connections of the server's other proxies, by TLS with the keys of that moment. How much the connections take of others
// is bounded: those above the bounds are closed at once.
func (k *Keys) Listen(from net.Listener) net.Listener {
	return &peers{Listener: from, config: k.Accept(), places: share.New(maxStrangers, share.Half(maxStrangers))}
}

type peers struct {
	net.Listener
	config *tls.Config
	places *share.Places // of strangers
}

// Accept implements net.Listener.
func (p *peers) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, err := p.places.Take(addressOf(conn), 1)
		if err != nil {
			_ = conn.Close() //nolint:errcheck // nothing was sent
			continue
		}
		shown := &shownConn{Conn: conn}
		return &peerConn{Conn: tls.Server(shown, p.config), stranger: shown, leave: leave}, nil
	}
}

func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	return host
}

// peerConn is a connection that leaves the strangers at the end of its handshake. To look whose key was shown is not enough: a certificate
// can be shown by who does not have its key, and the signature comes behind it.
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
