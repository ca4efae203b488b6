package proxy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = errors.New("the resolver is away")

// What a resolver said holds for five minutes and no longer, for whoever asks.
func TestAnOldListOfPodsHoldsForNobody(t *testing.T) {
	p, now, pod := newPods("x:80"), time.Now(), netip.MustParseAddr("10.0.0.1")
	p.now = func() time.Time { return now }
	var err error
	p.lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{pod}, err }
	for _, step := range []struct {
		after time.Duration
		err   error
		want  error
	}{
		{0, nil, nil}, {stalePods, errAway, nil}, {freshPods, errAway, errAway}, {0, errAway, errAway}, {missing, errAway, errAway}, {missing, nil, nil},
	} {
		now, err = now.Add(step.after), step.err
		if known, got := p.list(t.Context(), freshPods); !errors.Is(got, step.want) || slices.Contains(known, pod) != (got == nil) {
			t.Errorf("%s later: got %s and %v, want %v", step.after, known, got, step.want)
		}
	}
}

// A resolver that does not answer is asked once for all, and waited for as long as its caller likes.
func TestASilentResolverIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, lookups := newPods("x:80"), atomic.Int32{}
		p.lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			lookups.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := p.list(t.Context(), freshPods); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := p.list(ctx, freshPods); err == nil || time.Since(began) != time.Second {
				t.Errorf("who waits a second gets %v after %s", err, time.Since(began))
			}
		})
		all.Wait()
		if n, took := lookups.Load(), time.Since(began); n != 1 || took != lookupTime {
			t.Errorf("%d lookups in %s", n, took)
		}
	})
}
