package apply

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// unchanged reports whether applying the intent to live would change nothing:
// the manager owns exactly the intent's fields, and they have its values. It
// is found from the live object alone, so a new process finds it too. Where
// the server rewrites values, it is found from what the server made of the
// same intent before.
func (w *Writer) unchanged(live client.Object, in intent, subresource string, k memoryKey) (bool, error) {
	owns, err := w.owns(live, in, subresource)
	if err != nil {
		return false, err
	}
	if owns && in.holds(live) {
		return true, nil
	}
	if in.fields.Empty() {
		return false, nil
	}
	return w.learned(live, in, subresource, k)
}

// owns reports whether the manager owns exactly the intent's fields in live.
func (w *Writer) owns(live client.Object, in intent, subresource string) (bool, error) {
	// The API server writes a set of fields as we do, so that equal text is the
	// common case; other text can still be the same set.
	entry := ownership.Entry(live.GetManagedFields(), w.manager, subresource)
	if entry.GetRawString() == in.owned {
		return true, nil
	}
	owned, err := ownership.Applied(live.GetManagedFields(), w.manager, subresource)
	return err == nil && owned.Equals(in.fields), err
}

// learned reports whether live is as the server made it of this intent before.
func (w *Writer) learned(live client.Object, in intent, subresource string, k memoryKey) (bool, error) {
	last, ok := w.applier.memory.get(k)
	if !ok || last.uid != live.GetUID() {
		return false, nil
	}
	if hash, err := in.hash(); err != nil || last.intent != hash {
		return false, err
	}
	owned, err := ownership.Applied(live.GetManagedFields(), w.manager, subresource)
	if err != nil || owned.Empty() {
		return false, err
	}
	value, err := w.applier.converter.live(in.gvk, live)
	if err != nil {
		return false, err
	}
	seen, err := fingerprint(value, owned)
	if err != nil {
		return false, err
	}
	if last.resourceVersion == live.GetResourceVersion() {
		last.settled = seen
		w.applier.memory.put(k, last)
		return true, nil
	}
	return last.settled == seen, nil
}

// fingerprint is a hash of the fields that a manager owns and their values.
func fingerprint(live *typed.TypedValue, owned *fieldpath.Set) ([sha256.Size]byte, error) {
	set, err := owned.ToJSON()
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encoding owned fields: %w", err)
	}
	values, err := json.Marshal(live.ExtractItems(owned.Leaves()).AsValue().Unstructured())
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encoding owned values: %w", err)
	}
	return sha256.Sum256(append(set, values...)), nil
}
