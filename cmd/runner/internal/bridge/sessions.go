package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/kept"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// open makes a session of a caller with a server, its own or the shared one. A proxy's own needs none while it is known
// what one says.
func (b *Bridge) open(ctx context.Context, caller string, own bool, standing *stream) (*session, *jsonrpc.Fault) {
	leave, err := b.sessions.Room(ctx, caller)
	switch {
	case err == nil:
	case errors.Is(err, kept.ErrClosed):
		return nil, busy("the server stops")
	case errors.Is(err, share.ErrOwn):
		return nil, busy("this caller has %d of %d sessions: end one first", share.Half(b.config.Sessions), b.config.Sessions)
	default:
		return nil, busy("all %d sessions of this pod are in use: end one, or come again later; the server's owner can add "+
			"pods (spec.replicas)", b.config.Sessions)
	}
	s := &session{
		id: rand.Text(), caller: caller, own: own, standing: standing, gone: make(chan struct{}), used: time.Now(),
		asked: map[string]bool{},
	}
	var f *jsonrpc.Fault
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
	if f != nil {
		leave()
		return nil, f
	}
	if !b.sessions.Put(s.id, s, caller, leave) {
		s.end()
		return nil, busy("the server stops")
	}
	if !own {
		go b.follow(s)
	}
	return s, nil
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
		b.end(s)
	case <-s.gone:
	}
}

// end ends a session that has not ended.
func (b *Bridge) end(s *session) { b.sessions.End(s.id) }

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
	ended := b.sessions.Sweep(now, func(s *session) time.Duration { return s.patience(b.config.Idle) })
	b.sweepOwn(now)
	if ended > 0 {
		b.config.Log.Info("idle sessions ended", "sessions", ended)
	}
}
