package proxy

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// flight is one request on its way, from the stage track on until its answer has ended.
type flight struct {
	client  context.Context //nolint:containedctx // one request's; ends when the client leaves
	ctx     context.Context //nolint:containedctx // one request's; ends also when the proxy ends it
	cancel  context.CancelCauseFunc
	request *http.Request
	body    *pipeline.Body
	traffic *traffic
	conn    net.Conn // the client's, once the stream has been taken over; traffic.mu guards it

	// route is where it goes, as the stage of this name finds it. The others only read it.
	route route
	// began is the pod that got a request which may begin a session: the upstream chooses it.
	began    netip.AddrPort
	internal bool // the translator makes it, and not the client: no drain knows it
	// of is the client's request for which a translator makes it, nil where that is not known; sent says that something of
	// it has gone to a backend, or may have.
	of   *flight
	sent atomic.Bool
	// theirs says that what comes of it is the backend's own word, and not the proxy's nor a bridge's.
	theirs atomic.Bool
	// replied says that the backend has begun to answer the call as MCP has it.
	replied atomic.Bool
	// inside says that it is a question of the process's own. Use is that of the content where it is counted, nil for
	// none: counted as a call, busy as one of who has connected, and visits as one of a session.
	inside  bool
	use     *use
	counted bool
	busy    bool
	visits  atomic.Bool
	// sessionlessLane is that of a stream that answers no call and has no session, until one begins; traffic.mu guards it.
	sessionlessLane *lane
	// opened is the session that it names. Unread says that the content of that is not known, and the status could not be
	// read: so it is not known either whether the session is gone.
	opened openedSession
	unread bool

	// What later stages report to earlier ones.

	denied   bool      // its calls are answered by Deny
	failed   int       // the status in whose place the call is answered with another, 0 for none
	leave    func()    // gives the caller's place back; nil where it has none
	takeover *takeover // nil where the stream stays with net/http
	leads    string    // the path to which the backend has led the request; empty for none
}

// takenOver remembers a connection that the server does not know any more.
func (f *flight) takenOver(conn net.Conn) {
	f.traffic.mu.Lock()
	defer f.traffic.mu.Unlock()
	f.conn = conn
	f.traffic.taken++
}

// pod is where the session of the request is, or may begin; the zero AddrPort where no pod keeps sessions.
func (f *flight) pod() netip.AddrPort { return cmp.Or(f.route.pod, f.began) }

// answered says that the answer has passed. What may follow in the stream is no
// call's: a drain does not wait for it.
func (f *flight) answered() {
	if to := f.route.to; to != nil && !to.Bridged { // a bridge answers in the place of a program that has ended
		f.replied.Store(true)
		f.heard()
	}
	t := f.traffic
	t.mu.Lock()
	defer t.mu.Unlock()
	if stream, on := t.flights[f]; on && !stream {
		t.flights[f] = true
		t.calls--
		t.tell()
	}
}

// answersNoCall reports whether the request opens a stream on which the server sends what it likes, until one side ends
// it.
func (f *flight) answersNoCall() bool {
	return f.request.Method == http.MethodGet || f.listening()
}

// listening reports whether the request is a subscriptions/listen of revision
// 2026-07-28, which must name its method in this header.
func (f *flight) listening() bool {
	return f.request.Header.Get(protocol.HeaderMethod) == protocol.MethodListen
}

// drained reports whether the proxy ended the request.
func (f *flight) drained() bool { return errors.Is(context.Cause(f.ctx), errDraining) }

// moved reports whether it ended since calls go to other content.
func (f *flight) moved() bool { return errors.Is(context.Cause(f.ctx), errMoved) }

// deserted reports whether the client has left.
func (f *flight) deserted() bool { return f.client.Err() != nil }

// reached says that something of a request has gone to a backend.
func (f *flight) reached() {
	f.sent.Store(true)
	if f.of != nil {
		f.of.sent.Store(true)
	}
}

type flightKey struct{}

func flightOf(ctx context.Context) *flight {
	return ctx.Value(flightKey{}).(*flight) //nolint:forcetypeassert // every request that reaches the backend has one
}

// traffic is all requests on their way.
type traffic struct {
	mu      sync.Mutex
	flights map[*flight]bool // whether it answers no call
	calls   int
	taken   int // streams whose connections have been taken
	over    bool
	changed chan struct{}
}

func newTraffic() *traffic {
	return &traffic{flights: map[*flight]bool{}, changed: make(chan struct{}, 1)}
}

// flight makes one that no drain knows. It ends with the context of its client.
func (t *traffic) flight(client context.Context, r *http.Request, body *pipeline.Body) *flight {
	ctx, cancel := context.WithCancelCause(client)
	f := &flight{client: client, cancel: cancel, request: r, body: body, traffic: t}
	f.of, _ = client.Value(flightKey{}).(*flight)
	f.ctx = context.WithValue(ctx, flightKey{}, f)
	return f
}

// begin makes one that a drain waits for, until end.
func (t *traffic) begin(client context.Context, r *http.Request, body *pipeline.Body) *flight {
	f := t.flight(client, r, body)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flights[f] = f.answersNoCall()
	if !t.flights[f] {
		t.calls++
	}
	if t.over && r.Method != http.MethodDelete { // sessions are still ended
		f.cancel(errDraining)
		body.Stop()
	}
	return f
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
	f.leaveUse()
	f.cancel(nil)
	f.body.End()
	if f.leave != nil {
		f.leave()
	}
	t.tell()
}

// count returns how many calls are on their way, and how many streams are open.
func (t *traffic) count() (calls, streams int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls, len(t.flights) - t.calls
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

// setSessionlessLane notes that a stream has no session at a lane.
func (t *traffic) setSessionlessLane(f *flight, at *lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.sessionlessLane = at
}

// Streams that move end one after the other, of many some at a time: each begins anew at the content that calls go to
// now, where a subscription may be a session or a process. All have ended before the pods of the content before do,
// which sleep longer than moveTime before they end (podtemplate.BackendSleep).
const (
	moveTime  = 5 * time.Second
	moveTurns = 100
	movePause = moveTime / moveTurns
)

// move ends the streams without a session at a lane that calls no longer go to, while they do not: their clients begin
// them anew, where they call.
func (t *traffic) move(from *lane, isLeft func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*flight
	for f := range t.flights {
		if f.sessionlessLane == from && !f.visits.Load() {
			all = append(all, f)
		}
	}
	if len(all) > 0 {
		go t.moveAll(all, from, isLeft)
	}
}

func (t *traffic) moveAll(all []*flight, from *lane, isLeft func() bool) {
	for some := range slices.Chunk(all, 1+(len(all)-1)/moveTurns) {
		t.mu.Lock()
		for _, f := range some {
			if _, open := t.flights[f]; open && f.sessionlessLane == from && !f.visits.Load() && isLeft() {
				f.cancel(errMoved)
			}
		}
		t.mu.Unlock()
		time.Sleep(movePause)
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
