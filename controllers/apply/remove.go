package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Release gives up everything the manager owns on the main resource of live:
// an apply of nothing. For the manager of a finalizer it removes the
// finalizer. If nothing is owned, nothing is sent; if the object is gone, that
// is what was wanted.
func (w *Writer) Release(ctx context.Context, live client.Object) error {
	gvk, err := apiutil.GVKForObject(live, w.applier.client.Scheme())
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", live, err)
	}
	empty := &nothing{metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: live.GetName(), Namespace: live.GetNamespace()}}}
	empty.SetGroupVersionKind(gvk)
	_, err = w.Apply(ctx, live, empty)
	if isGone(err) {
		return nil
	}
	return err
}

// nothing is the statement that nothing is owned.
type nothing struct{ metav1.PartialObjectMetadata }

// IsApplyConfiguration marks nothing as an intent.
func (*nothing) IsApplyConfiguration() {}

// Remove deletes live, and only as it was read: whoever decided that it is to go did
// by its owner. What it owns is collected in the background. An object that is gone is
// what was wanted. It returns ErrStale if the object moved, and *NotGranted if the contract
// does not let the writer's identity delete the kind.
func (w *Writer) Remove(ctx context.Context, live client.Object) error {
	gvk, err := apiutil.GVKForObject(live, w.applier.client.Scheme())
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", live, err)
	}
	identity := w.applier.contract.Identity(w.manager)
	if !w.applier.contract.MayRemove(identity, gvk) {
		return &NotGranted{Manager: w.manager, Object: gvk.Kind, Fields: []string{"(deletion)"}}
	}
	key, uid, version := client.ObjectKeyFromObject(live), live.GetUID(), live.GetResourceVersion()
	err = w.applier.as(identity).Delete(ctx, live,
		client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsConflict(err) {
		var now client.Object
		if now, err = w.applier.read(ctx, gvk, key); err == nil && now.GetUID() == uid {
			err = ErrStale
		} else if err == nil {
			return nil // the object we meant is gone
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", gvk.Kind, key, err)
	}
	return nil
}
