package apply

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// memorySize is how many writes are remembered: ten a server for some
// thousands of servers. Forgetting one costs a comparison, never a wrong
// write.
const memorySize = 1 << 16

// unseenFor is how long a cache may take to show a write of ours before the
// server is asked: where its store was restored from a backup, that write is
// never seen again.
const maxCacheLag = 10 * time.Second

// memory is what was written last, by object and manager. It takes the place
// of a client that waits for its own writes: an object that is older than our
// last write of it is one on which that write is still to be seen.
type memory struct{ cache *lru.Cache }

type memoryKey struct {
	gvk         schema.GroupVersionKind
	key         types.NamespacedName
	manager     string
	subresource string
}

// written is one remembered write.
type written struct {
	uid             types.UID
	resourceVersion string
	// intent is the hash of what was sent.
	intent [sha256.Size]byte
	// at is when it was sent, or last found at the server.
	at time.Time
	// made is what the server made of it, and stays says that it has what a take-over
	// takes off: admission puts that back.
	stored  *storedFields
	leftoverReturns bool
	// moved is a take-over whose apply is still to come, since the object moved between its two
	// writes; nil if none is.
	pending *transfer
	// repairs says how many repairs of the object may still be made at once, nil if
	// all may.
	repairs *rate.Limiter
}

func newMemory() memory { return memory{cache: lru.New(memorySize)} }

func (m memory) get(k memoryKey) (written, bool) {
	v, ok := m.cache.Get(k)
	if !ok {
		return written{}, false
	}
	w, ok := v.(written)
	return w, ok
}

// says reports whether the last write under k was of this intent.
func (m memory) lastIntentIs(k memoryKey, in intent) (bool, error) {
	last, ok := m.get(k)
	hash, err := in.hash()
	return ok && last.intent == hash, err
}

// unchanged is what is known of an object to which nothing was sent: our last
// write, where live does not show it yet.
func (m memory) newestOutcome(live client.Object, k memoryKey) Outcome {
	version := live.GetResourceVersion()
	if last, ok := m.get(k); ok && last.ahead(live.GetUID(), version) {
		version = last.resourceVersion
	}
	return Outcome{Result: Unchanged, UID: live.GetUID(), ResourceVersion: version}
}

// move notes what was moved to the manager, and is to be applied next.
func (m memory) recordTransfer(k memoryKey, live client.Object, t *transfer) {
	last, ok := m.get(k)
	if !ok || last.uid != live.GetUID() {
		last = written{uid: live.GetUID()}
	}
	last.pending = &transfer{handed: t.handed, reset: t.reset, from: t.from, fields: t.fields}
	m.put(k, last)
}

// moved is what was moved before, and was not applied yet. One that is applied by now is forgotten.
func (m memory) pendingTransfer(k memoryKey, live client.Object, settled bool) *transfer {
	last, ok := m.get(k)
	if !ok || last.pending == nil || last.uid != live.GetUID() {
		return nil
	}
	if settled {
		last.pending = nil
		m.put(k, last)
	}
	return last.pending
}

func (m memory) put(k memoryKey, w written) { m.cache.Add(k, w) }
func (m memory) forget(k memoryKey)         { m.cache.Remove(k) }

// ahead reports whether w was written after the object that has uid and
// resourceVersion was read.
func (w written) ahead(uid types.UID, version string) bool {
	if w.uid != uid {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, w.resourceVersion)
	return err == nil && order < 0
}

// ahead returns how much longer a cache that shows live may take to show our
// last write to it, 0 if live has that write. A write that is not shown in time
// and is not at the server either was undone there, and all that is remembered
// of that server with it.
func (a *Applier) ahead(ctx context.Context, live client.Object, k memoryKey) (time.Duration, error) {
	last, ok := a.memory.get(k)
	if !ok || !last.ahead(live.GetUID(), live.GetResourceVersion()) {
		return 0, nil
	}
	if left := last.at.Add(maxCacheLag).Sub(a.Now()); left > 0 {
		return left, nil
	}
	stored, err := a.read(ctx, k.gvk, k.key)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return 0, fmt.Errorf("reading %s %s: %w", k.gvk.Kind, k.key, err)
	case err == nil && last.ahead(stored.GetUID(), stored.GetResourceVersion()):
		a.memory.cache.Clear()
		a.upToDate.Clear()
		for _, forget := range a.onRestore {
			forget()
		}
		return 0, nil
	}
	last.at = a.Now() // the cache is late, or the object gone: that event comes
	a.memory.put(k, last)
	return maxCacheLag, nil
}
