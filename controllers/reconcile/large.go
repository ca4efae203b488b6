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

// LargeObject is the size in bytes from which on a cache keeps only a part of an object: anyone who can create
// objects in a namespace could otherwise exhaust the memory of the process. A pass reads such an object from the API
// server, one pass at a time.
const LargeObject = 32 << 10

// cut marks managedFields of an object that a cache keeps in part. The API server stores no such operation, so nobody
// can write it.
const cut metav1.ManagedFieldsOperationType = "Cut"

// Cut marks an object of which a cache keeps a part. digest identifies the omitted content, and may be empty.
func Cut(obj client.Object, digest string) {
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: digest, Operation: cut}})
}

// IsCut reports whether obj is only a part of the stored object.
func IsCut(obj client.Object) bool {
	entries := obj.GetManagedFields()
	return len(entries) == 1 && entries[0].Operation == cut
}

// CutDigest is the digest that Cut was called with.
func CutDigest(obj client.Object) string { return obj.GetManagedFields()[0].Manager }

// Whole reads an object from a cache, or live if the cache has only a part of it.
func Whole(ctx context.Context, reader, live client.Reader, key client.ObjectKey, obj client.Object) error {
	if err := reader.Get(ctx, key, obj); err != nil || !IsCut(obj) {
		return err
	}
	return Live(ctx, live, key, obj)
}

// Live reads an object from the API server.
func Live(ctx context.Context, live client.Reader, key client.ObjectKey, obj client.Object) error {
	reflect.ValueOf(obj).Elem().SetZero() // a client decodes into what is there
	return live.Get(ctx, key, obj)
}

const (
	// A denied object comes back after largeRetry, plus largeStagger for each one of its namespace before it, at most
	// largeRetryMax. One that is late by largeGone has left the queue.
	largeRetry, largeRetryMax = 100 * time.Millisecond, 5 * time.Second
	largeStagger              = 20 * time.Millisecond
	largeGone                 = time.Second
)

// LargeQueue admits one large object at a time: several would need more memory than the process has, and occupy all
// workers. No namespace is admitted twice in a row while another one waits. Within a namespace the order is first come,
// first served, so that an object is not starved by one that is woken constantly. The zero value is ready for use.
type LargeQueue struct {
	mu    sync.Mutex
	taken bool
	// last is the namespace that was admitted last, line the objects that wait, in the order in which they came.
	last string
	line []waiting
}

// waiting is an object in the queue, and when it comes back.
type waiting struct {
	namespace, name string
	due             time.Time
}

// Take admits the object and returns 0, after which Leave must be called, or returns how long to wait. name
// identifies the object and its kind.
func (t *LargeQueue) Take(namespace, name string, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = slices.DeleteFunc(t.line, func(w waiting) bool { return now.Sub(w.due) > largeGone })
	at, before, others := len(t.line), 0, false
	for i, w := range t.line {
		switch {
		case w.namespace != namespace:
			others = true
		case w.name == name:
			at = i
		case at > i:
			before++
		}
	}
	if !t.taken && before == 0 && (namespace != t.last || !others) {
		t.taken, t.last = true, namespace
		t.line = slices.Delete(t.line, at, min(at+1, len(t.line)))
		return 0
	}
	wait = min(largeRetry+time.Duration(before)*largeStagger, largeRetryMax)
	comes := waiting{namespace, name, now.Add(wait)}
	if at == len(t.line) {
		t.line = append(t.line, comes)
	}
	t.line[at] = comes
	return wait
}

// Leave admits the next object.
func (t *LargeQueue) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
}

// LargeSlot is one pass's use of a LargeQueue.
type LargeSlot struct {
	queue           *LargeQueue
	namespace, name string
	held            bool
}

// Of returns the slot of a pass over an object of the namespace, whose name identifies its kind, too. Leave must be
// called.
func (t *LargeQueue) Of(namespace, name string) *LargeSlot {
	return &LargeSlot{queue: t, namespace: namespace, name: name}
}

// Take returns 0 if the pass is admitted, else how long to wait.
func (h *LargeSlot) Take(now time.Time) (wait time.Duration) {
	if !h.held {
		wait = h.queue.Take(h.namespace, h.name, now)
		h.held = wait == 0
	}
	return wait
}

// Leave gives the slot back if the pass has it.
func (h *LargeSlot) Leave() {
	if h.held {
		h.held = false
		h.queue.Leave()
	}
}

// Read reads an object whole. It waits for the slot if the cache has only a part of the object; wait is how long.
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
