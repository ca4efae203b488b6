package proxy

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// refusing is a translator before a modern backend: it knows no streams and no sessions.
type refusing struct{ next http.Handler }

func (refusing) Close(context.Context) {}
func (refusing) Waiting() int          { return 0 }
func (refusing) Waits(string) bool     { return false }
func (t refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		t.next.ServeHTTP(w, r)
		return
	}
	w.WriteHeader(http.StatusMethodNotAllowed)
}

// passing is one before a legacy backend.
type passing struct{ refusing }

func (t passing) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.next.ServeHTTP(w, r) }

// A proxy that has not heard of a switch, since its watch is broken, looks before it says that a session is gone which
// another proxy began at the new content, and before a translator of the other era says that there are none: also where
// it does not know whether all pods run the content that it knows. What it finds to be gone it looks for once.
func TestSessionsOfContentThatAProxyHasNotHeardOf(t *testing.T) {
	for _, alone := range []bool{true, false} {
		var looks atomic.Int32
		var two *twoContents
		finds, read := func() { two.to(1) }, true
		two = twoOf(t, func(c *Config) {
			c.Refresh = func(context.Context) bool {
				looks.Add(1)
				finds()
				return read
			}
			c.Translate = func(to *Upstream, next, _ http.Handler) Translator {
				if to.Slot == 1 {
					return refusing{next}
				}
				return passing{refusing{next}}
			}
		})
		content := two.contents[0].Content
		content.Alone = alone
		two.contents[0] = two.contents[0].Holds(content)
		two.upstream.pods.now = func() time.Time { return time.Now().Add(2 * dnsMemory) }
		two.alone(1)
		id, at := two.open()
		unheard := func() {
			two.alone(0)
			s := &two.target.switching
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.unnamed, session.Content(hashes[1]))
			s.asked = time.Time{}
		}
		for _, method := range []string{http.MethodPost, http.MethodDelete} {
			unheard()
			if got := answered(t, two.in(id, method, "x"))["pod"]; got != at {
				t.Errorf("%v: %s is answered at %q", alone, method, got)
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
			t.Errorf("%v: it looked %d times", alone, n)
		}
	}
}
