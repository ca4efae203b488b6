package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// Budget is how a drain divides its time. The sum must stay below the pod's
// terminationGracePeriodSeconds, after which the kernel ends the process.
type Budget struct {
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

// BudgetOf is the budget of a pod with a grace period. At least a second is for calls.
func BudgetOf(grace time.Duration) Budget {
	const propagation, last = 5 * time.Second, 3 * time.Second
	return Budget{Propagation: propagation, Calls: max(time.Second, grace-spared-propagation-last), Last: last}
}

// Server serves the proxy. It has no write timeout: a stream lasts as long as
// both ends want it.
func (p *Proxy) Server() *http.Server {
	return &http.Server{
		Handler:           p,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    MaxRequestHeader,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelWarn),
	}
}

// errDraining is the cause with which a drain cancels what it can wait for no
// longer, and the answer to that.
var errDraining = jsonrpc.Fail(http.StatusServiceUnavailable, CodeDraining,
	"Draining: the proxy is shutting down and could not wait for this call any longer; it may have run")

// Drain ends server, which serves p, within the budget: every call that was
// accepted ends in its answer or in CodeDraining, every standing stream at the
// end of an event. It returns when nothing is left, or the time is over.
func (p *Proxy) Drain(server *http.Server, budget Budget) {
	p.draining.Store(true)
	time.Sleep(budget.Propagation)

	ctx, cancel := context.WithTimeout(context.Background(), budget.Calls+budget.Last)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = server.Shutdown(ctx) //nolint:errcheck // its error is the end of the time, which Close below answers
	}()

	calls, cancelCalls := context.WithTimeout(ctx, budget.Calls)
	defer cancelCalls()
	p.traffic.wait(calls)
	p.traffic.cancel()
	<-closed
	p.traffic.settle(ctx)
	_ = server.Close() //nolint:errcheck // nothing is left to do about it
	p.traffic.hangUp()
	last, cancelLast := context.WithTimeout(context.Background(), min(budget.Last, lastWords))
	defer cancelLast()
	var ending sync.WaitGroup
	for _, t := range p.targets {
		if t.translator != nil {
			ending.Go(func() { t.translator.Close(last) })
		}
	}
	ending.Wait()
}

// lastWords is how long it may take to end sessions with the backend that the translation holds, or no client.
const lastWords = 2 * time.Second

// flight is one request on its way.
type flight struct {
	denied  bool            // its calls are answered by Deny
	client  context.Context //nolint:containedctx // one request's; ends when the client leaves
	ctx     context.Context //nolint:containedctx // one request's; ends also when the proxy ends it
	cancel  context.CancelCauseFunc
	request *http.Request
	body    *pipeline.Body
	traffic *traffic
	place   place
	held    *held    // nil where no stream can be taken
	leave   func()   // gives the caller's place back; nil where it has none
	conn    net.Conn // the client's, once it has been taken; traffic.mu guards it
	leads   string   // the path to which the backend has led the request; empty for none
	ours    bool     // not the client's own request, but one that the translator makes: no drain knows it
}

// take remembers a connection that the server does not know any more.
func (f *flight) take(conn net.Conn) {
	f.traffic.mu.Lock()
	defer f.traffic.mu.Unlock()
	f.conn = conn
	f.traffic.taken++
}

// answered says that the answer has passed. What may follow in the stream is no
// call's: a drain does not wait for it.
func (f *flight) answered() {
	t := f.traffic
	t.mu.Lock()
	defer t.mu.Unlock()
	if standing, on := t.flights[f]; on && !standing {
		t.flights[f] = true
		t.calls--
		t.tell()
	}
}

// standing reports whether the request waits for no answer: it is a stream on
// which the server sends what it likes, until one side ends it.
func (f *flight) standing() bool {
	return f.request.Method == http.MethodGet || f.listening()
}

// listening reports whether the request is a subscriptions/listen of revision
// 2026-07-28, which must name its method in this header.
func (f *flight) listening() bool {
	return f.request.Header.Get(protocol.HeaderMethod) == protocol.MethodListen
}

// drained reports whether the proxy ended the request.
func (f *flight) drained() bool { return errors.Is(context.Cause(f.ctx), errDraining) }

// deserted reports whether the client has left.
func (f *flight) deserted() bool { return f.client.Err() != nil }

type flightKey struct{}

func flightOf(ctx context.Context) *flight {
	return ctx.Value(flightKey{}).(*flight) //nolint:forcetypeassert // every request that reaches the backend has one
}

// traffic is all requests on their way.
type traffic struct {
	mu      sync.Mutex
	flights map[*flight]bool // the value: standing
	calls   int
	taken   int // streams whose connections have been taken
	over    bool
	changed chan struct{}
}

func newTraffic() *traffic {
	return &traffic{flights: map[*flight]bool{}, changed: make(chan struct{}, 1)}
}

func (t *traffic) flight(r *http.Request, body *pipeline.Body) *flight {
	ctx, cancel := context.WithCancelCause(r.Context())
	f := &flight{client: r.Context(), cancel: cancel, request: r, body: body, traffic: t}
	f.ctx = context.WithValue(ctx, flightKey{}, f)
	return f
}

func (t *traffic) begin(r *http.Request, body *pipeline.Body) (*flight, context.Context) {
	f := t.flight(r, body)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flights[f] = f.standing()
	if !t.flights[f] {
		t.calls++
	}
	if t.over && r.Method != http.MethodDelete { // sessions are still ended
		f.cancel(errDraining)
		body.Stop()
	}
	return f, f.ctx
}

func (t *traffic) end(f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.flights[f] {
		t.calls--
	}
	if f.conn != nil {
		t.taken--
	}
	delete(t.flights, f)
	f.cancel(nil)
	f.body.End()
	if f.leave != nil {
		f.leave()
	}
	t.tell()
}

// tell wakes wait.
func (t *traffic) tell() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// wait returns when no call is on its way, or ctx ends.
func (t *traffic) wait(ctx context.Context) { t.until(ctx, func() bool { return t.calls == 0 }) }

// settle returns when every stream that was taken from the server has ended, or ctx ends.
func (t *traffic) settle(ctx context.Context) { t.until(ctx, func() bool { return t.taken == 0 }) }

func (t *traffic) until(ctx context.Context, done func() bool) {
	for {
		t.mu.Lock()
		over := done()
		t.mu.Unlock()
		if over {
			return
		}
		select {
		case <-t.changed:
		case <-ctx.Done():
			return
		}
	}
}

// cancel ends everything that is still on its way, and what comes after.
func (t *traffic) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for f := range t.flights {
		f.cancel(errDraining)
		f.body.Stop()
	}
}

// hangUp closes the connections of what is still on its way, where the server cannot.
func (t *traffic) hangUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f := range t.flights {
		if f.conn != nil {
			_ = f.conn.Close() //nolint:errcheck // nothing is left to do about it
		}
	}
}
