package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Unchanged reports whether Apply would send nothing, because the existing live already matches ac. Its errors are
// those of Apply.
func (w *Writer) Unchanged(ctx context.Context, live client.Object, ac runtime.ApplyConfiguration) (bool, error) {
	in, err := w.applier.converter.freeze(ac)
	if err != nil {
		return false, fmt.Errorf("comparing as %s: %w", w.manager, err)
	}
	same, err := w.isUpToDate(ctx, live, in)
	if err != nil {
		return false, fmt.Errorf("comparing %s %s as %s: %w", in.gvk.Kind, in.key, w.manager, err)
	}
	return same, nil
}

func (w *Writer) isUpToDate(ctx context.Context, live client.Object, in intent) (bool, error) {
	grant, err := w.grant(in)
	if err != nil {
		return false, err
	}
	_, settled, err := w.assess(ctx, live, in, grant, w.memoryKey(in, grant))
	return settled, err
}

// unchanged reports whether applying the intent to live would change nothing: the manager owns exactly the intent's
// fields, with its values. It needs only the live object, so a new process finds it too; only rewritten values are
// compared with memory.
func (w *Writer) unchanged(live client.Object, in intent, subresource string, k memoryKey) (bool, error) {
	owns, err := w.owns(live, in, subresource)
	if err != nil {
		return false, err
	}
	if owns && in.satisfiedBy(live) {
		return true, nil
	}
	if in.fields.Empty() {
		return false, nil
	}
	return w.matchesStored(live, in, subresource, k)
}

func (w *Writer) owns(live client.Object, in intent, subresource string) (bool, error) {
	// The API server encodes a set of fields as we do, so equal text is the common case; other text can still be the
	// same set.
	entry := ownership.Entry(live.GetManagedFields(), w.manager, subresource)
	if entry.GetRawString() == in.owned {
		return true, nil
	}
	owned, err := ownership.Applied(live.GetManagedFields(), w.manager, subresource)
	return err == nil && owned.Equals(in.fields), err
}
