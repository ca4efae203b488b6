package proxy

import (
	"cmp"
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// Asked is the backend that the process asks itself, and what is known of its pods: that which has the process's own
// content where own is set and calls reach that, else that which gets the calls.
//
// What is said of it by one of these is of where calls went when Pods was last called: they may go elsewhere since.
type Asked struct {
	target *target
	own    bool
	seen   atomic.Pointer[Upstream]
}

// Asked is that of the target at a path.
func (p *Proxy) Asked(path string, own bool) *Asked {
	a := &Asked{target: p.targets[path], own: own}
	a.seen.Store(a.upstream())
	return a
}

// upstream is nil before there is one.
func (a *Asked) upstream() *Upstream {
	upstreams := a.target.upstreams.Load()
	if a.own {
		return cmp.Or(upstreams.of(session.Content(a.target.config.Own)), upstreams.Active)
	}
	return upstreams.Active
}

// Pods are those that are ready: none where that is not known, or where the backend has none.
func (a *Asked) Pods(ctx context.Context) []netip.Addr {
	to := a.upstream()
	a.seen.Store(to)
	if to == nil || to.pods == nil || to.peers != nil {
		return nil
	}
	known, err := to.pods.list(ctx, freshPods)
	if err != nil {
		return to.pods.lastKnown() // who forgets a pod forgets that it does not answer
	}
	return known
}

// LastAnswer is when a pod last answered a client's call, or any if pod is the zero Addr. It is zero for never, and
// where it is not known which pod it was.
func (a *Asked) LastAnswer(pod netip.Addr) time.Time {
	to := a.seen.Load()
	if to == nil {
		return time.Time{}
	}
	if pod.IsValid() && to.pods != nil {
		if at, isOnly := to.pods.lastAnswer(pod); !isOnly {
			return at
		}
	}
	if at := to.use.answered.Load(); at > 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// LeaveOut has what begins go to other pods than these, as long as there are others: sessions stay where they are.
func (a *Asked) LeaveOut(pods []netip.Addr) {
	if to := a.seen.Load(); to != nil && to.pods != nil {
		to.pods.leaveOut(pods)
	}
}
