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
	owned, err := ownership.Applied(live.GetManagedFields(), w.manager, subresource)
	if err != nil {
		return false, err
	}
	if in.fields.Empty() {
		return owned.Empty(), nil
	}
	if owned.Empty() {
		return false, nil
	}
	value, err := w.applier.converter.live(in.gvk, live)
	if err != nil {
		return false, err
	}
	if owned.Equals(in.fields) && agrees(value, in.value) {
		return true, nil
	}
	last, ok := w.applier.memory.get(k)
	if !ok || last.uid != live.GetUID() || last.intent != in.hash {
		return false, nil
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

// agrees reports whether merging want into live changes nothing.
func agrees(live, want *typed.TypedValue) bool {
	merged, err := live.Merge(want)
	if err != nil {
		return false
	}
	comparison, err := live.Compare(merged)
	return err == nil && comparison.IsSame()
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
