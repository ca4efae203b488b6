// Package kept keeps what callers have for longer than a request, within bounds: sessions, and streams that may be
// resumed.
package kept

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// ErrClosed is Room's error where nothing is taken any more.
var ErrClosed = errors.New("nothing is taken any more")

// Use is how the values of a table are used. Its functions are called while the table is locked.
type Use[V any] struct {
	// Found, if not nil, is told that a value was asked for.
	Found func(V)
	// Idle is since when a value is not in use, false while it is.
	Idle func(V) (since time.Time, ok bool)
	// Least is how long a value must have been idle to make room.
	Least time.Duration
	// End ends a value, whose place comes free once done is closed, at once if that is nil. A table without End is
	// neither closed nor swept, and its values are taken out.
	End func(V) (done <-chan struct{})
	// Wait is how long a newcomer waits for a place that comes free.
	Wait time.Duration
}

// Table has as many values as it has places, of which one caller has half. Where there is no place left the value that
// has been idle for the longest time makes room: of all, or of a caller that has as many as one may have. Callers that
// did not log in are called "", and share all. Make it with New.
type Table[K comparable, V any] struct {
	use    Use[V]
	places *share.Places

	mu     sync.Mutex
	of     map[K]entry[V]
	ending map[*ending]bool
	closed bool
}

// ending is a value that ends, and has its place yet.
type ending struct {
	caller  string
	awaited bool // by a newcomer
}

type entry[V any] struct {
	value  V
	caller string
	leave  func()
}

// New makes a table with so many places.
func New[K comparable, V any](places int, use Use[V]) *Table[K, V] {
	return &Table[K, V]{
		use: use, places: share.New(places, share.Half(places)), of: map[K]entry[V]{}, ending: map[*ending]bool{},
	}
}

// Room takes a place for a value of a caller's, which Put gives it, or else leave gives back. Where nothing makes room
// it returns share.ErrOwn or share.ErrAll.
func (t *Table[K, V]) Room(ctx context.Context, caller string) (leave func(), err error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, ErrClosed
	}
	leave, err = t.places.Take(caller, 1)
	if err == nil {
		t.mu.Unlock()
		return leave, nil
	}
	own := errors.Is(err, share.ErrOwn)
	comes := t.await(caller, own)
	if comes == nil && t.makeRoom(caller, own) {
		now, none := t.places.Take(caller, 1)
		if none == nil {
			t.mu.Unlock()
			return now, nil
		}
		comes = t.await(caller, own)
	}
	t.mu.Unlock()
	if comes == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.use.Wait)
	defer cancel()
	if later, late := t.places.Wait(ctx, caller, 1); late == nil {
		return later, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	comes.awaited = false
	return nil, err
}

// await is what ends, of a caller's or of all, and for whose place nobody waits yet: nil for none. The lock is held.
func (t *Table[K, V]) await(caller string, own bool) *ending {
	for e := range t.ending {
		if !e.awaited && (!own || e.caller == caller) {
			e.awaited = true
			return e
		}
	}
	return nil
}

// makeRoom ends the value that was idle longest, of a caller's or of all, and reports whether there was one. The lock
// is held.
func (t *Table[K, V]) makeRoom(caller string, own bool) bool {
	var oldest K
	var since time.Time
	found := false
	for k, e := range t.of {
		at, idle := t.use.Idle(e.value)
		if idle && (!own || e.caller == caller) && (!found || at.Before(since)) {
			oldest, since, found = k, at, true
		}
	}
	if !found || time.Since(since) < t.use.Least {
		return false
	}
	t.end(oldest)
	return true
}

// Put has a value, at the place that Room took for its caller. It is false where the table has been closed since.
func (t *Table[K, V]) Put(k K, v V, caller string, leave func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		leave()
		return false
	}
	t.of[k] = entry[V]{v, caller, leave}
	return true
}

// Get returns the value of a key, the zero value if there is none.
func (t *Table[K, V]) Get(k K) V {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.of[k]
	if ok && t.use.Found != nil {
		t.use.Found(e.value)
	}
	return e.value
}

// Each calls do with each value.
func (t *Table[K, V]) Each(do func(V)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.of {
		do(e.value)
	}
}

// Len is how many values there are.
func (t *Table[K, V]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of)
}

// End ends the value of a key, if there is one.
func (t *Table[K, V]) End(k K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(k)
}

// Take takes a value out that is the one that is meant, and does not end it.
func (t *Table[K, V]) Take(k K, meant func(V) bool) (v V, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.of[k]
	if !ok || !meant(e.value) {
		return v, false
	}
	delete(t.of, k)
	e.leave()
	return e.value, true
}

// Sweep ends the values that have been idle for their time, and returns how many.
func (t *Table[K, V]) Sweep(now time.Time, lasts func(V) time.Duration) (ended int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, e := range t.of {
		if since, idle := t.use.Idle(e.value); idle && now.Sub(since) >= lasts(e.value) {
			t.end(k)
			ended++
		}
	}
	return ended
}

// Close ends all values. Whatever comes later is refused.
func (t *Table[K, V]) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for k := range t.of {
		t.end(k)
	}
}

// end ends the value of a key. The lock is held.
func (t *Table[K, V]) end(k K) {
	e, ok := t.of[k]
	if !ok {
		return
	}
	delete(t.of, k)
	done := t.use.End(e.value)
	if done == nil {
		e.leave()
		return
	}
	ends := &ending{caller: e.caller}
	t.ending[ends] = true
	go func() {
		<-done
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.ending, ends) // nobody waits for a place that is free already
		e.leave()
	}()
}
