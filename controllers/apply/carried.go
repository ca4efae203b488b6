package apply

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// upToDateSize bounds how many objects are remembered as up to date.
const upToDateSize = 1 << 15

// upToDate remembers an object that an Apply found to match an intent.
type upToDate struct {
	intent string
	hash   [sha256.Size]byte
}

// Found remembers that live matches the caller's name of an intent, if the Apply with outcome done sent nothing.
// Nothing is remembered while the cache lacks our last write, because then that write is what matches.
func (w *Writer) Found(live client.Object, intent string, done Outcome) {
	if !absent(live) && done.Result == Unchanged && done.ResourceVersion == live.GetResourceVersion() {
		w.applier.upToDate.Add(live.GetUID(), upToDate{intent, w.contentHash(live)})
	}
}

// Carried names the intent that Found remembered for live, if live, except for its status, is still that object. An
// Apply of that intent would then change nothing, so the caller need not build it. It is empty for none.
func (w *Writer) Carried(live client.Object) string {
	if absent(live) {
		return ""
	}
	found, _ := w.applier.upToDate.Get(live.GetUID())
	last, _ := found.(upToDate)
	if last.intent == "" || last != (upToDate{last.intent, w.contentHash(live)}) {
		return ""
	}
	return last.intent
}

// contentHash identifies the object without its status; metadata.generation counts the changes of its spec. Other
// writers are part of it, because a reset of managedFields leaves fields to before-first-apply, which are taken over.
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
