package era

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/headers"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/kept"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

const (
	// maxSessions is how many sessions with a backend are held for modern clients. The one that was not used for the
	// longest time makes room: of all, or of a caller that has as many as one may have.
	maxSessions = 256
	// maxProfile is how long may be what a client says about itself, and by what the backend lets it in, in bytes: both
	// are kept with the session.
	maxProfile = 16 << 10
	// maxHello is how long may be what a backend says about itself, which is kept as well.
	maxHello = 64 << 10
	// idleTime is how long a session that nobody uses is held.
	idleTime = 5 * time.Minute
	// ownIdleTime is the same for one of the process's own: with a pod that has gone it asks nothing more.
	ownIdleTime = 48 * time.Hour
	// initializeTime is how long a backend may take to begin a session: longer than a bridge waits for its server's first
	// words.
	initializeTime = 65 * time.Second
)

// profile is what a session is made for. Requests that differ in any of it never share one: a legacy server is told
// once who its client is, what it can do, and what it wants logged.
type profile struct {
	caller       [sha256.Size]byte
	client       string // JSON
	capabilities string // JSON
	level        string
}

func (p profile) size() int { return len(p.client) + len(p.capabilities) + len(p.level) }

// session is one with a legacy backend.
type session struct {
	id      string // empty if the backend has no sessions
	version string
	hello   jsonrpc.Object // of the result of initialize what is told to clients
	tools   headers.Tools
}

func (s *session) header() http.Header {
	header := http.Header{protocol.HeaderVersion: {s.version}}
	if s.id != "" {
		header.Set(protocol.HeaderSession, s.id)
	}
	return header
}

func (s *session) server() jsontext.Value { return s.hello["serverInfo"] }

// heldSessions are those that are held.
type heldSessions struct {
	translator *Translator

	mu     sync.Mutex
	table  *kept.Table[profile, *held]
	next   *time.Timer // when they are looked at again
	ends   sync.WaitGroup
	closed bool
}

// held is a session that is held, or begins.
type held struct {
	ready   chan struct{} // closed when session or err is there
	profile profile
	session *session
	err     error
	origin  *http.Request // by which it is begun and ended; calls have their own
	caller  string        // who has its place
	own     bool          // it is the process's own, which asks rarely, or not while clients call
	busy    int
	used    time.Time

	standing standing
}

var errSessions = errors.New("too many calls of different clients are on their way, of all callers or of this one")

// get returns the session for a profile, which the caller has to give back. It begins one where there is none.
func (s *heldSessions) get(ctx context.Context, r *http.Request, p profile) (h *held, err error) {
	s.mu.Lock()
	if h = s.table.Get(p); h == nil {
		if h, err = s.add(r, p); err != nil {
			s.mu.Unlock()
			return nil, err
		}
	}
	h.busy++
	s.mu.Unlock()
	select {
	case <-h.ready:
		if h.err != nil {
			s.put(h)
			return nil, h.err
		}
		return h, nil
	case <-ctx.Done():
		s.put(h)
		return nil, ctx.Err()
	}
}

// add begins a session.
func (s *heldSessions) add(r *http.Request, p profile) (*held, error) {
	caller := pipeline.Of(r.Context()).Account()
	leave, err := s.table.Room(context.Background(), caller)
	if err != nil {
		return nil, errSessions
	}
	h := &held{
		ready: make(chan struct{}), profile: p, origin: s.translator.bare(r), caller: caller,
		own: s.translator.config.Own(r),
	}
	s.table.Put(p, h, caller, leave)
	go func() {
		defer close(h.ready)
		ctx, cancel := context.WithTimeout(context.Background(), initializeTime)
		defer cancel()
		if h.session, h.err = s.translator.initialize(ctx, h.origin, p); h.err != nil {
			s.drop(p, h) // also where nobody waits for it any more
		}
	}()
	return h, nil
}

// put gives a session back.
func (s *heldSessions) put(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.busy--
	h.used = time.Now()
	s.schedule()
}

// schedule has the sessions looked at again while there are any, and those end that were not used for long.
func (s *heldSessions) schedule() {
	if s.table.Len() == 0 || s.next != nil || s.closed {
		return
	}
	s.next = time.AfterFunc(idleTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.next = nil
		s.table.Sweep(time.Now(), (*held).lasts)
		s.schedule()
	})
}

// lasts is how long a session that nobody uses is held. The process's own is for longer than it asks nothing: many
// backends keep in memory what was ended.
func (h *held) lasts() time.Duration {
	if h.own {
		return ownIdleTime
	}
	return idleTime
}

// idle is since when a session is not used. The locks are held, of heldSessions and then of its table: who has the
// second alone must not ask for room, nor sweep.
func (h *held) idle() (since time.Time, ok bool) { return h.used, h.busy == 0 }

// end ends a session, whose place is another one's at once. The locks are held, as for idle.
func (s *heldSessions) end(h *held) (done <-chan struct{}) {
	s.ends.Go(func() {
		<-h.ready
		h.standing.close()
		if h.session != nil {
			s.translator.giveUp(h)
			s.translator.end(h.origin, h.session)
		}
	})
	return nil
}

// over has a session ended that is held no more, or never was.
func (s *heldSessions) over(end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.ends.Go(end)
	}
}

// Close ends the sessions with the backend, which may count them, and waits for that until ctx ends. It is for after
// the last request: a session that begins later is not ended.
func (t *Translator) Close(ctx context.Context) {
	s := &t.sessions
	s.mu.Lock()
	s.closed = true
	s.table.Close()
	if s.next != nil {
		s.next.Stop()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ends.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// drop forgets a session that did not begin, or that the backend does not know any more.
func (s *heldSessions) drop(p profile, h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.standing.close()
	s.table.Take(p, func(is *held) bool { return is == h })
}
