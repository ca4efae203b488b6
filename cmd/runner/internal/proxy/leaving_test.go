package proxy

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// sender is a translator that makes all requests its own.
type sender struct{ http.Handler }

// Close implements Translator.
func (sender) Close(context.Context) {}

// Waiting implements Translator.
func (sender) Waiting() int { return 0 }

// Waits implements Translator.
func (sender) Waits(string) bool { return false }

// A session leaves a pod that ends before the pod has ended, also soon after it began: a call that is there then breaks
// off. A proxy that has never heard of the pod takes it for a new one.
func TestASessionLeavesAPodThatEnds(t *testing.T) {
	b, secret := newBackends(t, 2), secretOf(t)
	ours := b.before(secret, func(c *Config) {
		c.Translate = func(_ *Upstream, _, send http.Handler) Translator { return sender{send} }
	})
	knew, stranger := b.before(secret), b.before(secret)
	knew.open()
	id, at := ours.open()
	answered(t, ours.in(id, http.MethodPost, "x"))
	ends := b.pods[slices.IndexFunc(b.pods, func(p *pod) bool { return p.address.String() == at })]
	b.unready(ends)
	later := func() time.Time { return time.Now().Add(2 * freshPods) }
	for name, f := range map[string]*bench{"who translates": ours, "who knew the pod": knew} {
		f.upstream.pods.now = later
		t.Run(name, func(t *testing.T) {
			wantFault(t, f.in(id, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
		})
	}
	stranger.upstream.pods.now = later
	if got := answered(t, stranger.in(id, http.MethodPost, "x")); got["pod"] != at {
		t.Errorf("a proxy that starts: %v", got)
	}
	if _, other := ours.open(); other == at {
		t.Errorf("the next session began at %s", at)
	}
	b.mu.Lock()
	b.ready = append(b.ready, ends.address) // it is ready again
	b.mu.Unlock()
	for range 2 {
		knew.upstream.pods.tried = time.Time{}
		answered(t, knew.in(id, http.MethodPost, "x"))
	}
}

// Those that have left are no list without an end.
func TestPodsThatLeftAreForgotten(t *testing.T) {
	p := newPods("pods.:8080")
	for i := range 3 * mostGone {
		p.learn([]netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
	}
	if last := netip.AddrFrom4([4]byte{10, 0, 0, 3*mostGone - 2}); len(p.gone) > mostGone || !p.hasLeft(last) {
		t.Errorf("it keeps %d", len(p.gone))
	}
}
