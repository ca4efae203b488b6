// Package share divides places among callers, so that none takes those that others need.
package share

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Errors of Take.
var (
	// ErrAll says that all places are taken.
	ErrAll = errors.New("all places are taken")
	// ErrOwn says that the caller has as many as one may have.
	ErrOwn = errors.New("the caller has as many places as one may have")
)

// Half is how many of all places one caller may have where callers are told apart: one at least.
func Half(all int) int { return (all + 1) / 2 }

// Places are as many as there are, and as many for each caller as one may have. Callers that did not log in are nobody
// that could be told from another: they share all places, and are called "". It forgets who holds and wants none. Make
// it with New.
type Places struct {
	all  *semaphore.Weighted
	each int64

	mu sync.Mutex
	of map[string]*place
}

type place struct {
	free *semaphore.Weighted
	// users hold one, or wait for one.
	users int
}

// New makes so many places, of which each caller may have so many.
func New(all, each int) *Places {
	return &Places{all: semaphore.NewWeighted(int64(all)), each: int64(each), of: map[string]*place{}}
}

// Wait waits for n places of a caller's until ctx ends, and returns how to leave them.
func (p *Places) Wait(ctx context.Context, caller string, n int64) (leave func(), err error) {
	l, err := p.Lease(ctx, caller, n)
	if err != nil {
		return nil, err
	}
	return l.Leave, nil
}

// Lease is Wait for places that need not all be left at once.
func (p *Places) Lease(ctx context.Context, caller string, n int64) (*Lease, error) {
	wait := func(s *semaphore.Weighted) error { return s.Acquire(ctx, n) }
	return p.enter(caller, n, wait, wait)
}

// Lease are places that somebody has.
type Lease struct {
	mu     sync.Mutex
	places *Places
	caller string
	its    *place // nil for nobody that could be told from another
	n      int64
	left   bool
}

// Shrink leaves all but n of them.
func (l *Lease) Shrink(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.left && n < l.n {
		l.release(l.n - n)
		l.n = n
	}
}

// Leave leaves all of them.
func (l *Lease) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return
	}
	l.left = true
	l.release(l.n)
	if l.its != nil {
		l.places.part(l.caller, l.its)
	}
}

func (l *Lease) release(n int64) {
	l.places.all.Release(n)
	if l.its != nil {
		l.its.free.Release(n)
	}
}

// Take takes n places now. It returns ErrOwn or ErrAll where there are not so many.
func (p *Places) Take(caller string, n int64) (leave func(), err error) {
	try := func(none error) func(*semaphore.Weighted) error {
		return func(s *semaphore.Weighted) error {
			if s.TryAcquire(n) {
				return nil
			}
			return none
		}
	}
	l, err := p.enter(caller, n, try(ErrOwn), try(ErrAll))
	if err != nil {
		return nil, err
	}
	return l.Leave, nil
}

func (p *Places) enter(caller string, n int64, own, all func(*semaphore.Weighted) error) (*Lease, error) {
	l := &Lease{places: p, caller: caller, n: n}
	if caller != "" {
		l.its = p.join(caller)
		if err := own(l.its.free); err != nil {
			p.part(caller, l.its)
			return nil, err
		}
	}
	if err := all(p.all); err != nil {
		if l.its != nil {
			l.its.free.Release(n)
			p.part(caller, l.its)
		}
		return nil, err
	}
	return l, nil
}

func (p *Places) join(caller string) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	its := p.of[caller]
	if its == nil {
		its = &place{free: semaphore.NewWeighted(p.each)}
		p.of[caller] = its
	}
	its.users++
	return its
}

func (p *Places) part(caller string, its *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if its.users--; its.users == 0 {
		delete(p.of, caller)
	}
}
