package apply

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Ahead reports whether one of managers has written obj after it was read: a pass over obj would judge a stale
// object. The watch brings the newer one; wait is when to look again if it does not, 0 if obj is the newest known.
// The server is then asked, because a restored server has forgotten our write.
func (a *Applier) Ahead(
	ctx context.Context, obj client.Object, managers ...ownership.Manager,
) (wait time.Duration, err error) {
	gvk, err := apiutil.GVKForObject(obj, a.client.Scheme())
	if err != nil {
		return 0, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	for _, manager := range managers {
		for _, subresource := range []string{"", "status"} {
			k := memoryKey{gvk: gvk, key: client.ObjectKeyFromObject(obj), manager: string(manager), subresource: subresource}
			if wait, err := a.ahead(ctx, obj, k); wait > 0 || err != nil {
				return wait, err
			}
		}
	}
	return 0, nil
}

func (a *Applier) read(
	ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName,
) (client.Object, error) {
	if !a.client.Scheme().Recognizes(gvk) { // a kind of others, which a cluster may lack
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		return obj, a.live.Get(ctx, key, obj)
	}
	made, err := a.client.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", gvk.Kind, err)
	}
	obj, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("reading %s: %T is no object", gvk.Kind, made)
	}
	return obj, a.live.Get(ctx, key, obj)
}

// checkStripped returns ErrStripped if the server has managedFields for an object that was read without. Anybody may
// reset them, so they can really be missing.
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
