package proxy

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// A proxy that has not heard of a switch, since its watch is broken, looks before it says that a session is gone which
// another proxy began at the new content. What it finds to be gone it looks for once.
func TestSessionsOfContentThatAProxyHasNotHeardOf(t *testing.T) {
	var looks atomic.Int32
	var two *twoContents
	finds, read := func() { two.to(1) }, true
	two = twoOf(t, func(c *Config) {
		c.Refresh = func(context.Context) bool {
			looks.Add(1)
			finds()
			return read
		}
	})
	two.alone(1)
	id, at := two.open()
	unheard := func() {
		two.alone(0)
		s := &two.target.switching
		delete(s.left, session.Content(hashes[1]))
		s.asked = time.Time{}
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		unheard()
		if got := answered(t, two.in(id, method, "x"))["pod"]; got != at {
			t.Errorf("%s is answered at %q", method, got)
		}
	}
	finds, read = func() { two.alone(0) }, false // as a pass that fails tells again what is known
	unheard()
	wantFault(t, two.in(id, http.MethodPost, "x"), http.StatusServiceUnavailable, CodeBackendStarting, "could not read")
	read, two.target.switching.asked = true, time.Time{}
	for range 3 {
		wantFault(t, two.in(id, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
	}
	if n := looks.Load(); n != 4 {
		t.Errorf("it looked %d times", n)
	}
}
