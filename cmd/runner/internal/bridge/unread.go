package bridge

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

const (
	// maxUnread is how many bytes of events there are at a time that wait for clients, are being written to them, or are
	// kept for clients that resume: of all streams.
	maxUnread = 32 << 20
	// roomPause is the time between two looks for room.
	roomPause = 20 * time.Millisecond
)

// roomTime is how long a server waits for room among them. Tests change it.
var roomTime = writeTime

// errUnread is what a call gets in place of an answer for which there is no room.
func errUnread() *jsonrpc.Fault {
	return jsonrpc.Fail(http.StatusBadGateway, CodeServerUnusable,
		"AnswerLost: %d bytes of answers wait for clients that read slowly, or %d for this caller; the call has run",
		maxUnread, share.Half(maxUnread))
}

// unread is the room that the events of one caller take among all.
type unread struct {
	places *share.Places // a byte each
	caller string
}

// hold is the room of one event. Its stream has a part in it, and each who writes it; the last that leaves gives it
// back.
type hold struct {
	leave func()
	parts atomic.Int32
}

func (u unread) take(size int) (*hold, error) {
	leave, err := u.places.Take(u.caller, int64(size))
	if err != nil {
		return nil, err
	}
	h := &hold{leave: leave}
	h.parts.Store(1)
	return h, nil
}

// join takes a part in what somebody has a part in; part leaves it. Both do nothing for an event that takes no room.
func (h *hold) join() {
	if h != nil {
		h.parts.Add(1)
	}
}

func (h *hold) part() {
	if h != nil && h.parts.Add(-1) == 0 {
		h.leave()
	}
}

// admit has an event wait, if there is room: in the stream, which wide tells, and among all. The lock is held.
func (s *stream) admit(e event) (admitted, wide bool) {
	if s.unsent > 0 && s.unsent+len(e.data) > maxUnsent {
		return false, false
	}
	h, err := s.unread.take(len(e.data))
	if err != nil {
		return false, true
	}
	e.hold = h
	s.add(e)
	return true, true
}

// add adds an event. The lock is held.
func (s *stream) add(e event) {
	s.events, s.unsent = append(s.events, e), s.unsent+len(e.data)
	s.change()
}

// lose makes room: it lets go of the oldest event that is kept, or else of the oldest that nobody reads. It is false
// where there is neither. The lock is held.
func (s *stream) lose() bool {
	switch {
	case s.next > s.first:
		s.shift()
	case s.attached || len(s.events) == 0:
		return false
	default:
		s.drop()
	}
	return true
}

// giveUp does without an event for which there is no room: an answer becomes an error, which takes none, and a
// notification is lost. It is false for a question: its server waits for an answer. The lock is held.
func (s *stream) giveUp(e event) bool {
	id, method := jsonrpc.At(e.data, "id"), jsonrpc.At(e.data, "method")
	if id == nil || method != nil {
		return id == nil && method != nil
	}
	f := errUnread()
	if e.status != 0 {
		e.status = f.Status
	}
	e.data = f.Response(id)
	s.add(e)
	return true
}

// wait waits for a change of the stream, or a while. The lock is held.
func (s *stream) wait(most time.Duration) {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	if most == 0 {
		<-changed
		return
	}
	select {
	case <-changed:
	case <-time.After(most):
	}
}

// free says that nobody comes back to the stream. Who reads it reads on; then all room is given back, and no more
// taken.
func (s *stream) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freed = true
	s.letGo()
}

// letGo gives back all room of a stream that is freed and that nobody reads. The lock is held.
func (s *stream) letGo() {
	if !s.freed || s.attached {
		return
	}
	for _, e := range s.events {
		e.hold.part()
	}
	s.first += len(s.events)
	s.events, s.next, s.unsent, s.sent = nil, s.first, 0, 0
	s.ended = true
	s.change()
}
