package apply

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// upToDateSize bounds how many objects are remembered as up to date, by manager: as many as writes.
const upToDateSize = memorySize

// digest is the beginning of a hash, zero for none.
type digest [sha256.Size / 2]byte

func digestOf(data []byte) digest {
	sum := sha256.Sum256(data)
	return digest(sum[:len(digest{})])
}

type upToDateKey struct {
	uid     types.UID
	manager ownership.Manager
}

// upToDate remembers an object that an Apply found to match an intent.
type upToDate struct {
	intent digest
	// name is the caller's name of the intent, empty for none.
	name            string
	resourceVersion string
	// content is the contentHash of the object. It is zero for an intent about the status, and where the API server
	// does not count changes of the spec in metadata.generation.
	content digest
}

// intentOf names an intent before it is read by its schema, which takes many times as long. It is zero if ac cannot be
// encoded.
func intentOf(ac runtime.ApplyConfiguration, opts []Option) digest {
	data, err := json.Marshal(ac)
	if err != nil {
		return digest{}
	}
	for _, o := range opts {
		data = append(data, byte(o))
	}
	return digestOf(data)
}

// RememberAs gives the intent that live was found to match the caller's name, if the Apply with outcome done sent
// nothing. The intent is about the object and not about its status. Nothing is remembered while the cache lacks our
// last write, because then that write is what matches.
func (w *Writer) RememberAs(live client.Object, name string, done Outcome) {
	if last, ok := w.remembered(live); ok && done.Result == Unchanged {
		last.name = name
		w.applier.upToDate.Add(upToDateKey{live.GetUID(), w.manager}, last)
	}
}

// RememberedAs is the name that RememberAs gave, if live, except for its status, is still that object. An Apply of that
// intent would then change nothing, so the caller need not build it. It is empty for none.
func (w *Writer) RememberedAs(live client.Object) string {
	last, _ := w.remembered(live)
	return last.name
}

func (w *Writer) remember(live client.Object, intent digest, done Outcome, status bool) {
	if absent(live) || live.GetUID() == "" || intent == (digest{}) {
		return
	}
	k := upToDateKey{live.GetUID(), w.manager}
	switch {
	case done.Result != Unchanged:
		w.applier.upToDate.Remove(k)
	case done.RequeueAfter == 0 && done.ResourceVersion == live.GetResourceVersion() && done.ResourceVersion != "":
		u := upToDate{intent: intent, resourceVersion: done.ResourceVersion}
		if !status && live.GetGeneration() > 0 {
			u.content = w.contentHash(live)
		}
		w.applier.upToDate.Add(k, u)
	}
}

// matches reports whether an Apply of the intent to live would change nothing, as it was found before.
func (w *Writer) matches(live client.Object, intent digest) bool {
	last, ok := w.remembered(live)
	return ok && last.intent == intent && intent != (digest{})
}

// remembered is what was found of live, if live is still that object.
func (w *Writer) remembered(live client.Object) (last upToDate, ok bool) {
	if absent(live) {
		return last, false
	}
	k := upToDateKey{live.GetUID(), w.manager}
	found, _ := w.applier.upToDate.Get(k)
	switch last, ok = found.(upToDate); {
	case !ok || last.resourceVersion == live.GetResourceVersion():
		return last, ok
	case last.content == (digest{}) || last.content != w.contentHash(live):
		return upToDate{}, false
	}
	last.resourceVersion = live.GetResourceVersion()
	w.applier.upToDate.Add(k, last)
	return last, true
}

// contentHash identifies the object without its status; metadata.generation counts the changes of its spec. Other
// writers are part of it, because a reset of managedFields leaves fields to before-first-apply, which are taken over.
func (w *Writer) contentHash(live client.Object) digest {
	var writers []string
	for _, entry := range live.GetManagedFields() {
		if entry.Subresource == "" {
			writers = append(writers, string(entry.Operation)+" "+entry.Manager)
		}
	}
	slices.Sort(writers)
	data, err := json.Marshal([]any{
		live.GetUID(), live.GetGeneration(), live.GetLabels(), live.GetAnnotations(), live.GetOwnerReferences(),
		live.GetFinalizers(), live.GetDeletionTimestamp(),
		ownership.Entry(live.GetManagedFields(), w.manager, "").GetRawString(), slices.Compact(writers),
	})
	if err != nil {
		return digest{}
	}
	return digestOf(data)
}
