package apply

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// carriedSize is of how many objects it is remembered that they carry an intent.
const upToDateSize = 1 << 15

// carried is an object that an Apply found to be as an intent says.
type upToDate struct {
	intent string
	hash  [sha256.Size]byte
}

// Found remembers that live was found to be as the intent says that the caller calls so: an Apply with it came to done.
// Where the cache does not show our last write, that is what is as it says, and nothing is remembered.
func (w *Writer) Found(live client.Object, intent string, done Outcome) {
	if !absent(live) && done.Result == Unchanged && done.ResourceVersion == live.GetResourceVersion() {
		w.applier.upToDate.Add(live.GetUID(), upToDate{intent, w.contentHash(live)})
	}
}

// Carries reports whether live is, but for its status, as it was when it was found to be as the intent says that the
// caller calls so. Then an Apply of that would change nothing, and the intent need not be made.
func (w *Writer) Carries(live client.Object, intent string) bool {
	if absent(live) {
		return false
	}
	found, ok := w.applier.upToDate.Get(live.GetUID())
	return ok && found == upToDate{intent, w.contentHash(live)}
}

// print names what an object is, but for its status. The API server counts each change of a spec in
// metadata.generation. Who owns something beside the status is in it too: fields that a reset of managedFields left to
// nobody have a writer of their own (before-first-apply), and are taken over.
func (w *Writer) contentHash(live client.Object) [sha256.Size]byte {
	var writers []string
	for _, entry := range live.GetManagedFields() {
		if entry.Subresource == "" {
			writers = append(writers, string(entry.Operation)+" "+entry.Manager)
		}
	}
	slices.Sort(writers)
	data, err := json.Marshal([]any{
		live.GetUID(), live.GetGeneration(), live.GetLabels(), live.GetAnnotations(), live.GetOwnerReferences(),
		ownership.Entry(live.GetManagedFields(), w.manager, "").GetRawString(), slices.Compact(writers),
	})
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(data)
}
