package bridge

import (
	"context"
	"sync"
	"time"
)

const (
	// maxUnsent is how many bytes wait for a client that reads slowly, beside one
	// message of any length.
	maxUnsent = 256 << 10
	// maxReplay is how many bytes are kept of what was written, for a client that comes
	// back with Last-Event-ID.
	maxReplay = 64 << 10
)

// event is a message for a client. status is that of the whole answer where the event
// is all of it; 200 where zero.
type event struct {
	data   []byte
	status int
	hold   *hold // nil where it takes no room
}

// stream is what a client reads: the answer to one POST, or all else of a session.
type stream struct {
	id string
	// replays says that what was written is kept.
	replays bool
	unread  unread

	mu       sync.Mutex
	events   []event
	first    int // the number of events[0]
	next     int // the number of the event that is written next
	unsent   int // in bytes
	sent     int // in bytes, of those that are kept
	open     int // calls that are not answered yet
	ended    bool
	attached bool
	reader   *reader // the last that attached
	freed    bool
	kept     time.Time // since when it is kept though it was written
	// changed is closed and made anew at each change.
	changed chan struct{}
}

// stream makes a stream of a caller's. It must be freed.
func (b *Bridge) stream(id string, replays bool, caller string) *stream {
	return &stream{id: id, replays: replays, unread: unread{b.unread, caller}, changed: make(chan struct{})}
}

// change wakes who waits. The lock is held.
func (s *stream) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// push adds an event. Where the client does not keep up, or there is no room among all, it waits, if patient and as
// long as somebody reads, and reports false otherwise: the event is lost then. A
// stream that nobody reads loses its oldest events instead.
func (s *stream) push(e event, patient bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := time.Time{}
	for !s.ended { // else it is of no use to anybody
		admitted, wide := s.admit(e)
		switch {
		case admitted:
			return true
		case !wide && !s.attached:
			s.drop()
		case wide && s.lose():
		case wide && !s.attached:
			s.giveUp(e) // a question is lost, as the oldest are
			return true
		case !patient && !wide:
			return false
		case !patient || !late.IsZero() && time.Now().After(late):
			return s.giveUp(e)
		case !wide:
			s.wait(0)
		default:
			if late.IsZero() {
				late = time.Now().Add(roomTime)
			}
			s.wait(roomPause)
		}
	}
	return true
}

// drop loses the oldest event that was not written. The lock is held.
func (s *stream) drop() {
	i := s.next - s.first
	s.unsent -= len(s.events[i].data)
	s.events[i].hold.part()
	s.events[i] = event{}
	s.next++
	s.trim()
}

// take is the next event and its number, once there is one; false where none comes
// any more, ctx has ended, or another reads. Its hold must be left once it has been written.
func (s *stream) take(ctx context.Context, by *reader) (e event, n int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.skip(); s.next == s.first+len(s.events) || s.reader != by; s.skip() {
		if s.ended || s.reader != by {
			return event{}, 0, false
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
			s.mu.Lock()
		case <-ctx.Done():
			s.mu.Lock()
			return event{}, 0, false
		}
	}
	e, n = s.events[s.next-s.first], s.next
	e.hold.join()
	s.next++
	s.unsent -= len(e.data)
	s.sent += len(e.data)
	s.trim()
	s.change()
	return e, n, true
}

// skip skips what was dropped, which whoever resumes may be before. The lock is held.
func (s *stream) skip() {
	for s.next < s.first+len(s.events) && s.events[s.next-s.first].data == nil {
		s.next++
	}
}

// trim lets go of events that were written. The lock is held.
func (s *stream) trim() {
	for s.first < s.next && (!s.replays || s.sent > maxReplay) {
		s.shift()
	}
	if len(s.events) == 0 {
		s.events = nil
	}
}

// shift lets go of the oldest event, which was written. The lock is held.
func (s *stream) shift() {
	s.sent -= len(s.events[0].data)
	s.events[0].hold.part()
	s.events[0] = event{}
	s.events, s.first = s.events[1:], s.first+1
}

// last reports whether nothing follows what was taken.
func (s *stream) last() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && s.next == s.first+len(s.events)
}

// reader is who reads a stream, until another does.
type reader struct{ _ byte } // it has an address of its own

// follows reports whether something is kept, or comes yet, after the event of a number.
func (s *stream) follows(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.events {
		if s.first+i > n && e.data != nil {
			return true
		}
	}
	return !s.ended
}

// attach makes its caller the one that reads: what was not written yet, or where it
// resumes what is kept from the event after the given number on. Who has read is at its
// end: its client may be gone for long before that is noticed.
func (s *stream) attach(resume bool, after int) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached, s.reader = true, &reader{}
	defer s.change()
	for resume && s.next > s.first && s.next > after+1 {
		s.next--
		n := len(s.events[s.next-s.first].data)
		s.unsent, s.sent = s.unsent+n, s.sent-n
	}
	return s.reader
}

// detach says that its caller does not read any more.
func (s *stream) detach(by *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != by {
		return
	}
	s.attached = false
	s.letGo()
	s.change()
}

func (s *stream) isAttached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attached
}

// keepFinished keeps a stream that was written, in place of the oldest one where there are too many.
func (b *Bridge) keepFinished(s *stream) {
	s.kept = time.Now()
	if leave, err := b.finished.Room(context.Background(), s.unread.caller); err == nil { // another one always makes room
		b.finished.Put(s, s, s.unread.caller, leave)
	}
}

// isFreed reports whether nobody comes back to the stream.
func (s *stream) isFreed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed
}

// begin counts calls, each of which settles once.
func (s *stream) begin(calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += calls
}

// settle ends the stream after its last call.
func (s *stream) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open--; s.open == 0 {
		s.ended = true
		s.change()
	}
}

// end ends the stream now.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		s.change()
	}
}

// idle reports whether nobody reads the stream, and nothing waits for it.
func (s *stream) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open == 0 && !s.attached
}

// written is the number of the last event that was written, -1 before the first.
func (s *stream) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next - 1
}

// reads reports whether no other has taken the stream over.
func (s *stream) reads(by *reader) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader == by
}

// lost takes back that an event was written.
func (s *stream) lost(n int, by *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader == by && s.next == n+1 && s.next > s.first {
		s.next--
		size := len(s.events[s.next-s.first].data)
		s.unsent, s.sent = s.unsent+size, s.sent-size
	}
}
