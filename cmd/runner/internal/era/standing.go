package era

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A legacy server that does not say for which call it asks, or logs, says it on the session's own stream, which a
// client opens with GET (MCP specification 2025-11-25, basic/transports, listening for messages from the server). A
// modern client has no such stream: what comes there is given to a call that is on its way, and changes to its
// subscriptions.

const (
	// standingTime is how long a call waits for the stream to begin: some servers send no headers before the first event.
	standingTime = 2 * time.Second
	// maxAsked is how many questions of one stream wait at once. Those above are dropped: a server that asks so much reads
	// no answers.
	maxAsked = 16
)

// askable are the capabilities of a client whom a server may ask something.
var askable = []string{"roots", "sampling", "elicitation"}

// standing is the stream of a session, and the calls that hear what comes there.
type standing struct {
	mu      sync.Mutex
	calls   []*hearing    // in the order in which they were sent
	changed chan struct{} // is closed when a call comes; nil while nobody waits for one
	stream  *exchange     // nil before the first, and when it has ended
	opened  time.Time     // when it was opened
	closed  bool          // there is no stream any more, or the server has none
}

// hearing is a call that hears what comes on the stream of its session.
type hearing struct {
	call *call
	said chan jsonrpc.Message
	left chan struct{}
}

// hears reports whether a call's client can hear anything that comes on the stream of a session.
func (c *call) hears() bool {
	capabilities := jsonrpc.Members(c.meta[protocol.MetaCapabilities])
	return c.profile.level != "" || c.meta[protocol.MetaProgress] != nil ||
		slices.ContainsFunc(askable, func(name string) bool { return capabilities[name] != nil })
}

// join has a call hear what comes on the stream until it leaves. The stream is opened then, unless the client could
// hear nothing: where it ends at once there is a call already for which it is opened again.
func (t *Translator) join(ctx context.Context, c *call) (h *hearing, leave func()) {
	s := &c.held.standing
	h = &hearing{call: c, said: make(chan jsonrpc.Message), left: make(chan struct{})}
	s.add(h)
	if c.held.session.id != "" && (c.hears() || t.listeners.any(c.profile)) {
		t.stand(ctx, c.held, c.origin)
	}
	return h, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = slices.DeleteFunc(s.calls, func(one *hearing) bool { return one == h })
		close(h.left)
	}
}

// add adds a call to those that hear.
func (s *standing) add(h *hearing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, h)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// stand opens the stream of a session where there is none, and waits until it has begun.
func (t *Translator) stand(ctx context.Context, h *held, r *http.Request) {
	s := &h.standing
	s.mu.Lock()
	stream := s.stream
	if stream == nil && !s.closed {
		stream = t.start(context.Background(), t.bare(r), http.MethodGet, nil, h.session.header())
		s.stream, s.opened = stream, time.Now()
		go t.follow(h, stream, t.bare(r))
	}
	patience := time.Until(s.opened.Add(standingTime))
	s.mu.Unlock()
	if stream == nil {
		return
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-stream.began:
	case <-late.C:
	case <-ctx.Done():
	}
}

// close ends the stream of a session that is over.
func (s *standing) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.stream != nil {
		s.stream.cancel()
	}
}

// follow gives what comes on a stream to the calls of its session. Another is opened for those that still wait when it
// has ended, or else for the next one; a server that has none (HTTP 405) is not asked again.
func (t *Translator) follow(h *held, stream *exchange, r *http.Request) {
	s := &h.standing
	defer func() {
		stream.cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stream, s.closed = nil, s.closed || stream.status == http.StatusMethodNotAllowed
		if stream.events != nil && len(s.calls) > 0 {
			time.AfterFunc(usualPause, func() { t.stand(context.Background(), h, r) })
		}
	}()
	<-stream.began
	if stream.events == nil {
		return
	}
	asked := make(chan struct{}, maxAsked)
	for said := range stream.words {
		for _, m := range said.messages {
			switch {
			case m.Call():
				select {
				case asked <- struct{}{}:
					go func() {
						defer func() { <-asked }()
						t.put(stream.ctx, h, m, r)
					}()
				default:
				}
			case t.listeners.tell(h.profile, m):
			case m.Method != "":
				if about := s.about(m); about != nil {
					about.hear(stream.ctx, m)
				}
			}
		}
	}
}

// progresses reports whether a notification is about this call.
func (c *call) progresses(params jsontext.Value) bool {
	return jsonrpc.SameID(jsonrpc.At(params, protocol.MetaProgress), encoded(c.sent))
}

// put has a client asked what its server asks on the stream, or answers in its place.
func (t *Translator) put(ctx context.Context, h *held, m jsonrpc.Message, r *http.Request) {
	if needed := needs(m); needed != nil {
		wait, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		if h.standing.taken(wait, needed, m) {
			return
		}
	}
	t.answerAlone(ctx, r, reply{message: m}, h.session.header())
}

// taken gives a question to the call that waits for the longest time of those whose client can answer. A question that
// comes before the first call, as one for roots does, waits for that.
func (s *standing) taken(ctx context.Context, needed map[string]any, m jsonrpc.Message) bool {
	for ctx.Err() == nil {
		h, next := s.asking(needed)
		switch {
		case h != nil && h.hear(ctx, m):
			return true
		case h != nil:
			continue // it is over
		case next == nil:
			return false // no call that is on its way can ask
		}
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
	return false
}

// asking is the call that asks its client. Where no call is on its way, next is closed when one comes.
func (s *standing) asking(needed map[string]any) (h *hearing, next chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == 0 {
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		return nil, s.changed
	}
	return s.first(func(c *call) bool {
		return slices.Contains(mayAsk, c.method) && declares(jsontext.Value(c.profile.capabilities), needed)
	}), nil
}

// about is the call that a notification is given to, nil for none.
func (s *standing) about(m jsonrpc.Message) *hearing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first(func(c *call) bool { return m.Method != "notifications/progress" || c.progresses(m.Params) })
}

// first is the call that waits for the longest time of those that are meant, nil if there is none.
func (s *standing) first(meant func(*call) bool) *hearing {
	at := slices.IndexFunc(s.calls, func(h *hearing) bool { return meant(h.call) })
	if at < 0 {
		return nil
	}
	return s.calls[at]
}

// hear gives a message to a call, and reports whether the call has taken it before it was over.
func (h *hearing) hear(ctx context.Context, m jsonrpc.Message) bool {
	select {
	case h.said <- m:
		return true
	case <-h.left:
	case <-ctx.Done():
	}
	return false
}
