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

// memorySize fits ten writes a server for some thousands of servers. A forgotten write costs a comparison, never a
// wrong write.
const memorySize = 1 << 16

// maxCacheLag is how long a cache may lack our write before the server is asked: after a restore from a backup, that
// write never appears.
const maxCacheLag = 10 * time.Second

// memory has the last write by object and manager. It replaces a client that waits for its own writes: an object
// older than our last write of it does not show that write yet.
type memory struct{ cache *lru.Cache }

type memoryKey struct {
	gvk         schema.GroupVersionKind
	key         types.NamespacedName
	manager     string
	subresource string
}

type written struct {
	uid             types.UID
	resourceVersion string
	intent          [sha256.Size]byte
	// at is when the write was sent, or last found on the server.
	at time.Time
	// leftoverReturns: the stored object has a leftover again that the apply removed, because admission adds it.
	stored          *storedFields
	leftoverReturns bool
	// pending is a take-over whose apply is still due, because the object changed between the two writes.
	pending *transfer
	// repairs limits how many repairs of the object follow each other at once; nil before the first.
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

func (m memory) lastIntentIs(k memoryKey, in intent) (bool, error) {
	last, ok := m.get(k)
	hash, err := in.hash()
	return ok && last.intent == hash, err
}

// newestOutcome is the newest known version of an object to which nothing was sent: our last write, if live lacks it.
func (m memory) newestOutcome(live client.Object, k memoryKey) Outcome {
	version := live.GetResourceVersion()
	if last, ok := m.get(k); ok && last.ahead(live.GetUID(), version) {
		version = last.resourceVersion
	}
	return Outcome{Result: Unchanged, UID: live.GetUID(), ResourceVersion: version}
}

func (m memory) recordTransfer(k memoryKey, live client.Object, t *transfer) {
	last, ok := m.get(k)
	if !ok || last.uid != live.GetUID() {
		last = written{uid: live.GetUID()}
	}
	last.pending = &transfer{handed: t.handed, reset: t.reset, from: t.from, fields: t.fields}
	m.put(k, last)
}

// pendingTransfer returns the transfer whose apply is still due, and forgets one that has settled.
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

func (w written) ahead(uid types.UID, version string) bool {
	if w.uid != uid {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, w.resourceVersion)
	return err == nil && order < 0
}

// ahead returns how much longer the cache behind live may lack our last write, 0 if live shows it. A write that is
// missing on the server, too, was lost in a restore: then all memory of that server is dropped.
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
