package runner

import (
	"io"
	"net"
	"sync"
	"testing"
)

// wire is a way to an address that can be cut and mended.
type wire struct {
	to       string
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: to, listener: listener, conns: map[net.Conn]bool{}}
	go w.serve()
	t.Cleanup(func() {
		_ = listener.Close()
		w.set(true)
	})
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) serve() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", w.to)
		if err != nil || !w.hold(from, to) {
			_ = from.Close()
			continue
		}
		go pass(from, to)
		go pass(to, from)
	}
}

// hold keeps two ends of a connection, or closes them if the wire is cut.
func (w *wire) hold(ends ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, end := range ends {
		if w.cut {
			_ = end.Close()
		} else {
			w.conns[end] = true
		}
	}
	return !w.cut
}

// set cuts the wire, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for conn := range w.conns {
		_ = conn.Close()
		delete(w.conns, conn)
	}
}

func pass(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = from.Close(), to.Close()
}
