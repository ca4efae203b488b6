package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Ahead reports whether one of managers has written obj after it was read: a
// pass over it would judge what is already history. The watch will bring the
// newer object.
func (a *Applier) Ahead(obj client.Object, managers ...ownership.Manager) (bool, error) {
	gvk, err := apiutil.GVKForObject(obj, a.client.Scheme())
	if err != nil {
		return false, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	for _, manager := range managers {
		for _, subresource := range []string{"", "status"} {
			k := memoryKey{gvk: gvk, key: client.ObjectKeyFromObject(obj), manager: string(manager), subresource: subresource}
			if last, ok := a.memory.get(k); ok && last.ahead(obj.GetUID(), obj.GetResourceVersion()) {
				return true, nil
			}
		}
	}
	return false, nil
}

// read reads the intent's object from the server.
func (w *Writer) read(ctx context.Context, in intent) (client.Object, error) {
	made, err := w.applier.client.Scheme().New(in.gvk)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", in.gvk.Kind, err)
	}
	obj, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("reading %s: %T is no object", in.gvk.Kind, made)
	}
	return obj, w.applier.live.Get(ctx, in.key, obj)
}

// checkStripped returns ErrStripped if the server has managedFields for an
// object that came without. They can really be missing: anybody may reset them.
func (w *Writer) checkStripped(ctx context.Context, obj client.Object) error {
	live, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return ErrStripped
	}
	if err := w.applier.live.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
		if apierrors.IsNotFound(err) {
			return ErrGone
		}
		return fmt.Errorf("reading managedFields: %w", err)
	}
	if len(live.GetManagedFields()) > 0 && live.GetResourceVersion() == obj.GetResourceVersion() {
		return ErrStripped
	}
	return nil
}
