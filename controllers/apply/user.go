package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// For programs that act for a person, with that person's rights. A controller has no use for them.

// Preview is the object as the API server would store it after an apply of ac, as JSON. Nothing is stored.
func (w *Writer) Preview(ctx context.Context, ac runtime.ApplyConfiguration) ([]byte, error) {
	in, err := w.applier.converter.freeze(ac)
	if err != nil {
		return nil, fmt.Errorf("previewing as %s: %w", w.manager, err)
	}
	grant, err := w.grant(in)
	if err != nil {
		return nil, err
	}
	f, err := w.apply(ctx, in, grant, preconditions{}, metav1.DryRunAll)
	if err != nil {
		return nil, fmt.Errorf("previewing %s %s as %s: %w", in.gvk.Kind, in.key, w.manager, err)
	}
	return f.answer, nil
}

// Replace gives fields of live's spec these values, at the version that was read, and removes those whose value is
// nil, whoever owns them: as a person does with kubectl edit. An apply cannot remove what another manager owns. It
// returns *NotGranted for a field outside the writer's grant, and ErrStale if the object moved.
func (w *Writer) Replace(ctx context.Context, live client.Object, fields map[string]any) error {
	kind := live.GetObjectKind().GroupVersionKind()
	grant, granted := w.applier.contract.Grant(w.manager, ownership.Object{GroupVersionKind: kind}, live.GetName())
	patch := []map[string]any{
		// With replace another version is a conflict; with test the patch would be invalid.
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !granted || !grant.Covers(fieldpath.MakePathOrDie("spec", field)) {
			return &NotGranted{Manager: w.manager, Object: kind.Kind, Fields: []string{".spec." + field}}
		}
		if fields[field] == nil {
			patch = append(patch, map[string]any{"op": "remove", "path": "/spec/" + field})
			continue
		}
		// add replaces an existing value.
		patch = append(patch, map[string]any{"op": "add", "path": "/spec/" + field, "value": fields[field]})
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("writing the spec of %s %s: %w", kind.Kind, live.GetName(), err)
	}
	changed, ok := live.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("writing the spec: %T is no object", live)
	}
	err = w.applier.as(grant.Identity).Patch(ctx, changed, client.RawPatch(types.JSONPatchType, body),
		client.FieldOwner(string(w.manager)))
	if err = classify(err, preconditions{resourceVersion: live.GetResourceVersion()}); err != nil {
		return fmt.Errorf("writing the spec of %s %s: %w", kind.Kind, live.GetName(), err)
	}
	return nil
}
