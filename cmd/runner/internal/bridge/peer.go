package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/headers"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
	"github.com/freehold-dev/freehold/cmd/runner/internal/stdio"
)

// maxCalls is how many calls of one connection wait for answers at a time, and how many
// subscriptions besides, which wait for as long as their clients like. Of a connection
// of many clients one caller has at most half.
const maxCalls = 256

// peer is one connection to the server. Where many clients use it, each request gets an
// id of ours, and so does each token that a client chose for progress. A server of one
// client reads that client's own, of several requests of one id the first: some servers show them.
type peer struct {
	conn Conn
	// other takes what answers no call: requests and notifications.
	other func(m jsonrpc.Message)
	// over, if not nil, is told that the connection has ended, before its calls are.
	over func(p *peer)
	// alone says that the server is one client's: while it reads slowly the server waits.
	alone bool

	mu sync.Mutex
	// started is when it began.
	started time.Time
	seq     int64
	use     string           // what it is for
	calls   map[string]*call // by the id that the server knows
	fault   *jsonrpc.Fault   // why no more is taken
	// done is closed when the connection has ended.
	done chan struct{}
	// heard is closed at the first message of the server.
	heard chan struct{}
	once  sync.Once
	// broken says that it ended or took no more, and stopped that the bridge ended it before that.
	broken, stopped atomic.Bool
	// tools are what the server wants repeated in headers.
	tools headers.Tools
	// refusals is full of those that are under way.
	refusals chan struct{}
}

// maxRefusals is how many requests of the server are refused at a time; what it asks
// while it does not read gets no answer.
const maxRefusals = 16

func newPeer(conn Conn, alone bool, other func(m jsonrpc.Message), over func(p *peer)) *peer {
	p := &peer{
		conn: conn, other: other, over: over, alone: alone, calls: map[string]*call{},
		started: time.Now(), done: make(chan struct{}), heard: make(chan struct{}),
		refusals: make(chan struct{}, maxRefusals),
	}
	go p.read()
	return p
}

// ask sends a request.
func (p *peer) ask(ctx context.Context, c *call, params []byte) error {
	c.token = jsonrpc.At(params, "_meta", protocol.MetaProgress)
	if !p.alone {
		if f := meddles(c.method, params); f != nil {
			return f
		}
	}
	if f := p.register(c); f != nil {
		return f
	}
	if c.ours {
		params, _ = jsonrpc.Swapped(params, c.wire, "_meta", protocol.MetaProgress)
	}
	return p.sent(p.conn.Send(ctx, jsonrpc.Message{ID: c.wire, Method: c.method, Params: params}.Text(),
		&Waiting{c.over, func(err error) { p.refused(err, c) }}), c)
}

// register has a call wait for its answer.
func (p *peer) register(c *call) *jsonrpc.Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil {
		return p.fault
	}
	switch all, own := p.alike(c); {
	case all >= maxCalls:
		return busy("%d calls of the kind of %s wait for the server", all, c.method)
	case c.caller != "" && !p.alone && own >= share.Half(maxCalls):
		return busy("%d calls of the kind of %s of this caller wait for the server", own, c.method)
	}
	p.seq++
	c.began = p.seq
	p.name(c)
	c.over = make(chan struct{})
	p.calls[jsonrpc.IDKey(c.wire)] = c
	return nil
}

// name gives a call the id that the server knows. It is the client's own for a server of its own, which may show it,
// unless another call of it waits: some clients use one id for all. The lock is held.
func (p *peer) name(c *call) {
	c.wire, c.ours = c.id, !p.alone
	if c.ours {
		c.wire = strconv.AppendInt(nil, p.seq, 10)
	}
	for n := p.seq; p.calls[jsonrpc.IDKey(c.wire)] != nil; n++ {
		c.wire, c.ours = fmt.Appendf(nil, `"freehold %d"`, n), true
	}
}

// alike is how many wait that are subscriptions or not, as c is: of all callers, and of
// that of c. The lock is held.
func (p *peer) alike(c *call) (all, own int) {
	for _, other := range p.calls {
		if (other.method == protocol.MethodListen) != (c.method == protocol.MethodListen) {
			continue
		}
		all++
		if other.caller == c.caller {
			own++
		}
	}
	return all, own
}

// sent says what came of sending. A call that could not be sent is taken back.
func (p *peer) sent(err error, c *call) error {
	if err == nil {
		return nil
	}
	_, gone := errors.AsType[goneError](err)
	if gone || errors.Is(err, stdio.ErrEnded) || errors.Is(err, stdio.ErrNotReading) {
		p.broken.Store(true)
	}
	if gone {
		defer p.conn.End() // after the call is withdrawn, which is told more than those that wait for their answers
	}
	if c != nil && !p.withdraw(c) {
		return nil // it was answered
	}
	switch {
	case errors.Is(err, stdio.ErrEnded):
		return jsonrpc.Fail(http.StatusBadGateway, CodeServerEnded, "ServerEnded: %s before it took the message", err)
	case errors.Is(err, stdio.ErrNotReading):
		return jsonrpc.Fail(http.StatusBadGateway, CodeServerUnusable, "ServerUnusable: %s", err)
	case errors.Is(err, errUnsure):
		return jsonrpc.Fail(http.StatusBadGateway, CodeServerEnded, "Unconfirmed: %s%s", err, c.mayHaveRun())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return busy("the server did not take the message in time")
	}
	return because(jsonrpc.Fail(http.StatusBadGateway, CodeServerUnusable, "ServerUnusable: %s: the call has not run",
		err), err)
}

// refused fails a call that was not taken after it was on its way. What came on the connection counts more.
func (p *peer) refused(err error, c *call) {
	if err := p.sent(err, c); err != nil {
		f := asFault(err)
		c.answer(f.Response(c.id), f.Status, p.alone)
	}
}

// tell sends a notification or an answer.
func (p *peer) tell(ctx context.Context, line []byte) error {
	return p.sent(p.conn.Send(ctx, line, nil), nil)
}

// take takes a call that is answered out of those that wait, nil where it does not.
func (p *peer) take(wire []byte) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remove(jsonrpc.IDKey(wire))
}

// withdraw is take for a call that is known.
func (p *peer) withdraw(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := jsonrpc.IDKey(c.wire)
	return p.calls[key] == c && p.remove(key) != nil
}

// remove takes a call out of those that wait. The lock is held.
func (p *peer) remove(key string) *call {
	c := p.calls[key]
	if c != nil {
		delete(p.calls, key)
		close(c.over)
	}
	return c
}

// mine are the calls of owner that wait, all of them for nil.
func (p *peer) mine(owner any) (calls []*call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if owner == nil || c.owner == owner {
			calls = append(calls, c)
		}
	}
	return calls
}

// read takes what the server says until the connection ends.
func (p *peer) read() {
	defer p.end()
	for {
		line, err := p.conn.Receive()
		var tooLong *stdio.TooLong
		switch {
		case errors.As(err, &tooLong):
			p.tooLong(tooLong)
			continue
		case err != nil:
			return
		}
		p.once.Do(func() { close(p.heard) })
		for _, m := range read(line) {
			p.dispatch(m)
		}
	}
}

func (p *peer) dispatch(m jsonrpc.Message) {
	if m.Response() {
		if c := p.answered(m.ID); c != nil {
			p.finish(c, m)
		}
		return
	}
	if m.Method == "" {
		return
	}
	m.Result, m.Error = nil, nil // a question has neither
	if c := p.about(&m); c != nil && c.to != nil {
		p.push(c, event{data: m.Text()})
		return
	}
	p.other(m)
}

// push hands an event to a call's client. One that shares the server and does not keep
// up loses its call.
func (p *peer) push(c *call, e event) {
	if !c.to.push(e, p.alone) {
		p.lose(c)
	}
}

func (p *peer) finish(c *call, m jsonrpc.Message) {
	if c.method == protocol.MethodListen && m.Result != nil {
		m.Result, _ = jsonrpc.Swapped(m.Result, c.id, "_meta", protocol.MetaSubscription)
	}
	status := http.StatusOK
	if c.modern {
		status = modernStatus(c.method, code(m))
	}
	m.ID = c.id
	c.answer(m.Text(), status, p.alone)
}

// isFor notes what the connection is for.
func (p *peer) isFor(use string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.use = use
}

// purpose is what it is for.
func (p *peer) purpose() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.use
}

// stop ends the connection.
func (p *peer) stop() {
	if !p.broken.Load() {
		p.stopped.Store(true)
	}
	p.conn.End()
}

// leaves reports whether the connection has ended, is being ended, or is of no more use.
func (p *peer) leaves() bool { return p.stopped.Load() || p.broken.Load() }
