package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// DrainTimes are how a drain divides its time. The sum must stay below the pod's
// terminationGracePeriodSeconds, after which the kernel ends the process.
type DrainTimes struct {
	// Propagation is how long new calls are still taken while the endpoint is
	// removed from the Service on every node.
	Propagation time.Duration
	// Calls is how long calls may take after that. Streams that answer no call
	// (GET, subscriptions/listen) end as soon as no call is left.
	Calls time.Duration
	// Last is how long the answers that the drain itself gives may take.
	Last time.Duration
}

// spared is what of a grace period is left for kubelet.
const spared = 5 * time.Second

// DrainTimesOf are those of a pod with a grace period. At least a second is for calls.
func DrainTimesOf(grace time.Duration) DrainTimes {
	const propagation, last = 5 * time.Second, 3 * time.Second
	return DrainTimes{Propagation: propagation, Calls: max(time.Second, grace-spared-propagation-last), Last: last}
}

// errDraining is the cause with which a drain cancels what it can wait for no
// longer, and the answer to that.
var errDraining = jsonrpc.Fail(http.StatusServiceUnavailable, CodeDraining,
	"Draining: the proxy is shutting down and could not wait for this call any longer; it may have run")

// errMoved is the cause with which a stream ends that belongs to no session, once calls go to other content.
var errMoved = func() *jsonrpc.Fault {
	f := jsonrpc.Fail(http.StatusServiceUnavailable, CodeDraining,
		"Draining: calls go to other content of the backend now: subscribe again")
	f.Retry = 1
	return f
}()

// Drain ends server, which serves p, in these times: every call that was
// accepted ends in its answer or in CodeDraining, every standing stream at the
// end of an event. It returns when nothing is left, or the time is over.
func (p *Proxy) Drain(server *http.Server, times DrainTimes) {
	p.draining.Store(true)
	time.Sleep(times.Propagation)

	ctx, cancel := context.WithTimeout(context.Background(), times.Calls+times.Last)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = server.Shutdown(ctx) //nolint:errcheck // its error is the end of the time, which Close below answers
	}()

	calls, cancelCalls := context.WithTimeout(ctx, times.Calls)
	defer cancelCalls()
	p.traffic.wait(calls)
	p.traffic.cancel()
	<-closed
	p.traffic.settle(ctx)
	_ = server.Close() //nolint:errcheck // nothing is left to do about it
	p.traffic.hangUp()
	last, cancelLast := context.WithTimeout(context.Background(), min(times.Last, lastWords))
	defer cancelLast()
	var ending sync.WaitGroup
	for _, t := range p.targets {
		for _, u := range t.upstreams.Load().all() {
			ending.Go(func() { u.endSessions(last) })
		}
	}
	ending.Wait()
}

// lastWords is how long it may take to end sessions with the backend that the translation holds, or no client.
const lastWords = 2 * time.Second
