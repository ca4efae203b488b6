package apply

import (
	"crypto/sha256"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"
)

// memorySize is how many writes are remembered: ten a server for some
// thousands of servers. Forgetting one costs a comparison, never a wrong
// write.
const memorySize = 1 << 16

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
	// settled is the fingerprint of what the server made of it, once seen. It
	// differs from the intent where the server or a webhook rewrites values.
	settled [sha256.Size]byte
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
