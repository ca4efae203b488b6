package proxy

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// idleWires is how many connections to one address wait for a call.
const idleWires = 256

// callBuffer is how much of the answer to a call is read at once, and streamBuffer of an event stream while little
// comes, in bytes.
const callBuffer, streamBuffer = 4 << 10, 512

// errLongHead is why an answer's headers are not read any further.
var errLongHead = errors.New("the backend's response headers are longer than 64 KiB")

// wires are connections on which calls begin for a time.
type wires struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	idle map[string][]*wire // nil once it is over, and where no call follows on a connection
}

// newWires are over after a time, and so are the connections that wait.
func newWires(life time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error)) *wires {
	l := &wires{dial: dial, idle: map[string][]*wire{}}
	time.AfterFunc(life, l.close)
	return l
}

func (w *wires) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, idle := range w.idle {
		for _, c := range idle {
			_ = c.Close() //nolint:errcheck // nothing is on it
		}
	}
	w.idle = nil
}

// get returns a connection that waits and is still good, or nil.
func (w *wires) get(address string) *wire {
	for {
		w.mu.Lock()
		idle := w.idle[address]
		if len(idle) == 0 {
			w.mu.Unlock()
			return nil
		}
		last := len(idle) - 1
		c := idle[last]
		idle[last], w.idle[address] = nil, idle[:last]
		w.mu.Unlock()
		if c.quiet() {
			return c
		}
		_ = c.Close() //nolint:errcheck // nothing is on it
	}
}

// put has a connection wait for the next call.
func (w *wires) put(c *wire) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if idle := w.idle[c.address]; w.idle != nil && len(idle) < idleWires {
		w.idle[c.address] = append(idle, c)
		return
	}
	_ = c.Close() //nolint:errcheck // nothing is on it
}

// wire is a connection to the backend.
type wire struct {
	net.Conn
	address  string
	raw      syscall.RawConn // nil where the system has none
	reader   *bufio.Reader
	headLeft int64 // bytes of a head that may be read
	sending  bool  // a part of the message may still be on its way
}

// newWire reads so many bytes at once while little comes.
func newWire(conn net.Conn, address string, buffer int) *wire {
	c := &wire{Conn: conn, address: address}
	c.reader = bufio.NewReaderSize(c, buffer)
	if s, ok := conn.(syscall.Conn); ok {
		c.raw, _ = s.SyscallConn() //nolint:errcheck // then it is nil
	}
	return c
}

// Read implements io.Reader for the connection's own buffer.
func (c *wire) Read(p []byte) (int, error) {
	if c.headLeft <= 0 {
		return 0, errLongHead
	}
	if int64(len(p)) > c.headLeft {
		p = p[:c.headLeft]
	}
	n, err := c.Conn.Read(p)
	c.headLeft -= int64(n)
	return n, err
}

// hangUp ends a call at once: the backend is told also where nobody reads.
func (c *wire) hangUp() { _ = c.Close() } //nolint:errcheck // whoever reads sees it

// quiet reports whether the backend has neither closed the connection nor sent anything that nobody asked for.
func (c *wire) quiet() bool {
	var one [1]byte
	var failed error
	err := c.raw.Read(func(fd uintptr) bool {
		_, failed = syscall.Read(int(fd), one[:])
		return true
	})
	return err == nil && errors.Is(failed, syscall.EAGAIN)
}

// unsentError is why nothing of a call was sent.
type unsentError struct{ error }

// Unwrap is why.
func (e *unsentError) Unwrap() error { return e.error }

// send writes a message as far as the system takes it at once: all of it, unless the backend is slow. It writes the
// rest while the answer is read, since a backend may answer before it has read the message. It returns an *unsentError.
func (c *wire) send(message []byte) error {
	if c.raw == nil {
		_, err := c.Write(message)
		return err
	}
	n := 0
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		n, failed = syscall.Write(int(fd), message)
		return true
	})
	switch {
	case err != nil:
		return &unsentError{err}
	case errors.Is(failed, syscall.EAGAIN), errors.Is(failed, syscall.EINTR):
		n = 0
	case failed != nil:
		return &unsentError{failed}
	}
	if n < len(message) {
		c.sending = true
		go c.Write(message[n:]) //nolint:errcheck // whoever reads the answer sees it
	}
	return nil
}
