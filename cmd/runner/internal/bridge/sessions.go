package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// open makes a session of a caller with a server, its own or the shared one. A proxy's own needs none while it is known
// what one says.
func (b *Bridge) open(ctx context.Context, caller string, own bool, standing *stream) (*session, *jsonrpc.Fault) {
	leave, f := b.room(ctx, caller)
	if f != nil {
		return nil, f
	}
	s := &session{
		id: rand.Text(), caller: caller, own: own, standing: standing, gone: make(chan struct{}), used: time.Now(),
		asked: map[string]bool{},
	}
	s.leave = func() { b.ending.after(s, leave) }
	if own {
		f = b.waitKnown(ctx)
		s.hello = b.starter.known()
	}
	switch {
	case s.hello != nil:
		f = nil
	case f == nil:
		f = b.connect(ctx, s)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if f != nil {
		leave()
		return nil, f
	}
	if b.closed {
		s.end()
		return nil, busy("the server stops")
	}
	b.sessions[s.id] = s
	if !own {
		go b.follow(s)
	}
	return s, nil
}

// endTime is how long a newcomer waits for a place that comes free: longer than a process may take to end.
const endTime = 6 * time.Second

// room takes the place of one session. Where there is none it ends the session that was
// idle longest: of all, or of a caller that has as many as one may have.
func (b *Bridge) room(ctx context.Context, caller string) (leave func(), f *jsonrpc.Fault) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, busy("the server stops")
	}
	leave, err := b.places.Take(caller, 1)
	own := errors.Is(err, share.ErrOwn)
	comes := err != nil && (b.ending.any(caller, own) || b.endIdle(caller, own))
	b.mu.Unlock()
	if comes {
		waiting, cancel := context.WithTimeout(ctx, endTime)
		defer cancel()
		leave, err = b.places.Wait(waiting, caller, 1)
	}
	switch {
	case err == nil:
		return leave, nil
	case own:
		return nil, busy("this caller has %d of %d sessions: end one first", share.Half(b.config.Sessions), b.config.Sessions)
	}
	return nil, busy("there are %d sessions", b.config.Sessions)
}

// endIdle ends the session that was idle longest, of all or of one caller, and reports whether there was one. The lock
// is held.
func (b *Bridge) endIdle(caller string, own bool) bool {
	var first *session
	var since time.Time
	for _, s := range b.sessions {
		if at, ok := s.idle(); ok && (!own || s.caller == caller) && (first == nil || at.Before(since)) {
			first, since = s, at
		}
	}
	if first == nil || time.Since(since) < makeRoom {
		return false
	}
	delete(b.sessions, first.id)
	first.end()
	return true
}

// endings are the sessions, by caller, that are over and have places yet: a process takes as much memory while it ends
// as before.
type endings struct {
	mu  sync.Mutex
	of  map[string]int
	all int
}

// after has a session's place given back once its own server has ended.
func (e *endings) after(s *session, leave func()) {
	s.mu.Lock()
	p, shared := s.peer, s.shared
	s.mu.Unlock()
	if p == nil || shared != nil {
		leave()
		return
	}
	e.count(s.caller, 1)
	go func() {
		<-p.done
		leave()
		e.count(s.caller, -1)
	}()
}

func (e *endings) count(caller string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[string]int{}
	}
	e.all += n
	if e.of[caller] += n; e.of[caller] == 0 {
		delete(e.of, caller)
	}
}

// any reports whether a place comes free, of a caller or of all.
func (e *endings) any(caller string, own bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return own && e.of[caller] > 0 || !own && e.all > 0
}

func (b *Bridge) connect(ctx context.Context, s *session) *jsonrpc.Fault {
	if !b.config.Shared && !s.own {
		p, f := b.starter.open(ctx, s.caller, oneSession, s.other)
		s.peer = p
		return f
	}
	all, f := b.share(ctx)
	if f == nil {
		s.join(all)
	}
	return f
}

// follow ends the session with its server, which knows what was said in it.
func (b *Bridge) follow(s *session) {
	select {
	case <-s.peer.done:
		if b.remove(s.id) != nil {
			s.end()
		}
	case <-s.gone:
	}
}

func (b *Bridge) find(id string) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[id]
	if s != nil {
		s.comes()
	}
	return s
}

func (b *Bridge) remove(id string) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[id]
	delete(b.sessions, id)
	return s
}

// sweep ends sessions that were idle for long.
func (b *Bridge) sweep() {
	ticker := time.NewTicker(sweepPause)
	defer ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case now := <-ticker.C:
			b.sweepAt(now)
		}
	}
}

func (b *Bridge) sweepAt(now time.Time) {
	b.mu.Lock()
	var old []*session
	for id, s := range b.sessions {
		if since, ok := s.idle(); ok && now.Sub(since) > s.patience(b.config.Idle) {
			delete(b.sessions, id)
			old = append(old, s)
		}
	}
	b.mu.Unlock()
	for _, s := range old {
		s.end()
	}
	b.sweepOwn(now)
	if len(old) > 0 {
		b.config.Log.Info("idle sessions ended", "sessions", len(old))
	}
}
