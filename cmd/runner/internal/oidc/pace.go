package oidc

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// pace bounds questions to the issuer about tokens that nobody knows: tokens cost their senders nothing, questions cost
// the issuer. One address has half of it, so that tokens which are made up at one keep nobody's at another from being
// looked at.
type pace struct {
	all *rate.Limiter

	mu   sync.Mutex
	each *lru.Cache // *rate.Limiter, by address
}

func newPace(limit rate.Limit, burst int) *pace {
	return &pace{all: rate.NewLimiter(limit, burst), each: lru.New(remembered)}
}

func (p *pace) of(address string) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.each.Get(address); ok {
		return known.(*rate.Limiter) //nolint:forcetypeassert // nothing else is added
	}
	l := rate.NewLimiter(p.all.Limit()/2, share.Half(p.all.Burst()))
	p.each.Add(address, l)
	return l
}

// allow reports whether there may be a question now.
func (p *pace) allow(address string) bool { return p.of(address).Allow() && p.all.Allow() }

// wait waits until there may be one.
func (p *pace) wait(ctx context.Context, address string) error {
	if err := p.of(address).Wait(ctx); err != nil {
		return err
	}
	return p.all.Wait(ctx)
}
