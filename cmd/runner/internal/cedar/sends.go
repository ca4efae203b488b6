package cedar

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/freehold-dev/freehold/controllers/authz"
)

// largeSends is how many answers above smallBody are sent at once, and sendTime how long one may take:
// a client decides how fast it reads.
const (
	largeSends = 16
	sendTime   = 15 * time.Second
	// largeEach is how many large answers are collected and sent for one caller, so that
	// others go on beside one that does not read.
	largeEach = 4
)

// join waits for a place among the large answers of a caller.
func (j *judge) join(ctx context.Context, caller authz.Caller) (part func(), err error) {
	if caller.Issuer == "" {
		return func() {}, nil // nobody knows one from another
	}
	return j.callers.take(ctx, caller.Issuer+" "+caller.Subject)
}

// places are as many for each as most says. It forgets who holds and wants none.
type places struct {
	most int64
	mu   sync.Mutex
	of   map[string]*place
}

type place struct {
	free *semaphore.Weighted
	// users hold one, or wait for one.
	users int
}

// take waits for a place of who.
func (p *places) take(ctx context.Context, who string) (leave func(), err error) {
	p.mu.Lock()
	if p.of == nil {
		p.of = map[string]*place{}
	}
	its := p.of[who]
	if its == nil {
		its = &place{free: semaphore.NewWeighted(p.most)}
		p.of[who] = its
	}
	its.users++
	p.mu.Unlock()
	gone := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if its.users--; its.users == 0 {
			delete(p.of, who)
		}
	}
	if err := its.free.Acquire(ctx, 1); err != nil {
		gone()
		return nil, err
	}
	return func() { its.free.Release(1); gone() }, nil
}

// send waits until there is memory to send size bytes for as long as the client reads
// them, and gives back the place of what is filtered.
func (a *answer) send(size int) (done func(), err error) {
	defer a.drop()
	if size <= smallBody {
		a.part()
		return func() {}, nil
	}
	release, err := a.sending()
	if err != nil {
		return nil, err
	}
	control := http.NewResponseController(a.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(sendTime)) //nolint:errcheck // a connection has deadlines
	return func() {
		_ = control.SetWriteDeadline(time.Time{}) //nolint:errcheck // as above
		release()
		a.part()
	}, nil
}

// hold has a place among the large answers while size bytes are kept.
func (a *answer) hold(size int) error {
	switch large := size > smallBody; {
	case large && !a.holds:
		if a.left == nil {
			part, err := a.join()
			if err != nil {
				return err
			}
			a.left = part
		}
		if err := a.acquire(); err != nil {
			return err
		}
		a.holds = true
	case !large:
		a.part()
	}
	return nil
}

// part gives back all places.
func (a *answer) part() {
	a.drop()
	if a.left != nil {
		a.left()
		a.left = nil
	}
}

func (a *answer) drop() {
	if a.holds {
		a.release()
		a.holds = false
	}
}
