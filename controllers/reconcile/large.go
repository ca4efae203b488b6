package reconcile

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LargeObject is the size from which on a cache does not keep an object whole, in bytes:
// whoever may create objects in a namespace could else make the process run out of memory.
// A pass reads it from the API server, and passes over large objects take turns.
const LargeObject = 32 << 10

// cut is the operation in the managedFields of an object that a cache keeps in part. The API
// server stores no such operation, so that nobody can write it.
const cut metav1.ManagedFieldsOperationType = "Cut"

// Cut marks an object of which a cache keeps a part. digest names the content that is left
// out, and may be empty.
func Cut(obj client.Object, digest string) {
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: digest, Operation: cut}})
}

// IsCut reports whether an object is a part of what the API server has.
func IsCut(obj client.Object) bool {
	entries := obj.GetManagedFields()
	return len(entries) == 1 && entries[0].Operation == cut
}

// CutDigest is the digest that Cut was called with.
func CutDigest(obj client.Object) string { return obj.GetManagedFields()[0].Manager }

// Whole reads an object from a cache, or live if the cache does not hold all of it.
func Whole(ctx context.Context, reader, live client.Reader, key client.ObjectKey, obj client.Object) error {
	if err := reader.Get(ctx, key, obj); err != nil || !IsCut(obj) {
		return err
	}
	return Live(ctx, live, key, obj)
}

// Live reads an object anew from the API server.
func Live(ctx context.Context, live client.Reader, key client.ObjectKey, obj client.Object) error {
	reflect.ValueOf(obj).Elem().SetZero() // a client decodes into what is there
	return live.Get(ctx, key, obj)
}

const (
	// turnRetry and turnMost are how long who asks for a turn in vain waits, turnGap is by how
	// much those of one namespace come apart, and turnGone when one that does not come back
	// has left the line.
	largeRetry, largeRetryMax = 100 * time.Millisecond, 5 * time.Second
	largeStagger             = 20 * time.Millisecond
	largeGone            = time.Second
)

// Turn is for one large object at a time: several at once would need more memory than the
// process has, and leave no worker to the others. A namespace does not take two turns
// while another one waits, however many of its objects ask. Those of one namespace are served
// in the order in which they came, so that none waits for ever beside one that is woken all
// the time. The zero value is free.
type LargeQueue struct {
	mu    sync.Mutex
	taken bool
	// last is the namespace of the last turn, and line are those that asked in vain, the one
	// that came first before the others.
	last string
	line []waiting
}

// waiting is an object that asked in vain, and due when it comes back.
type waiting struct {
	namespace, name string
	due             time.Time
}

// Take is zero if the object of the namespace may go on; then Leave must be called. Else it
// is how long to wait before the next try. name names the object and its kind.
func (t *LargeQueue) Take(namespace, name string, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = slices.DeleteFunc(t.line, func(w waiting) bool { return now.Sub(w.due) > largeGone })
	place, before, others := len(t.line), 0, false
	for i, w := range t.line {
		switch {
		case w.namespace != namespace:
			others = true
		case w.name == name:
			place = i
		case place > i:
			before++
		}
	}
	if !t.taken && before == 0 && (namespace != t.last || !others) {
		t.taken, t.last = true, namespace
		t.line = slices.Delete(t.line, place, min(place+1, len(t.line)))
		return 0
	}
	wait = min(largeRetry+time.Duration(before)*largeStagger, largeRetryMax)
	comes := waiting{namespace, name, now.Add(wait)}
	if place == len(t.line) {
		t.line = append(t.line, comes)
	}
	t.line[place] = comes
	return wait
}

// Leave ends a turn.
func (t *LargeQueue) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
}

// Holder is the part of one pass in a Turn.
type LargeSlot struct {
	queue            *LargeQueue
	namespace, name string
	held            bool
}

// Of is the part of a pass over an object of the namespace, whose name names its kind, too.
// Leave must be called.
func (t *LargeQueue) Of(namespace, name string) *LargeSlot {
	return &LargeSlot{queue: t, namespace: namespace, name: name}
}

// Take is zero if the pass has the turn, else how long to wait.
func (h *LargeSlot) Take(now time.Time) (wait time.Duration) {
	if !h.held {
		wait = h.queue.Take(h.namespace, h.name, now)
		h.held = wait == 0
	}
	return wait
}

// Leave gives the turn back if the pass has it.
func (h *LargeSlot) Leave() {
	if h.held {
		h.held = false
		h.queue.Leave()
	}
}

// Read reads an object whole, one that the cache holds in part in the turn: wait is how long
// to wait for that.
func (h *LargeSlot) Read(
	ctx context.Context, reader, live client.Reader, key client.ObjectKey, obj client.Object,
	now time.Time,
) (wait time.Duration, err error) {
	if err := reader.Get(ctx, key, obj); err != nil || !IsCut(obj) {
		return 0, err
	}
	if wait := h.Take(now); wait > 0 {
		return wait, nil
	}
	return 0, Live(ctx, live, key, obj)
}
