package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Release gives up all that the manager owns on the main resource of live, by an empty apply; the manager of a
// finalizer so removes it. It sends nothing if nothing is owned, and succeeds if the object is gone.
func (w *Writer) Release(ctx context.Context, live client.Object) error {
	gvk, err := apiutil.GVKForObject(live, w.applier.client.Scheme())
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", live, err)
	}
	empty := &emptyIntent{metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Name: live.GetName(), Namespace: live.GetNamespace()},
	}}
	empty.SetGroupVersionKind(gvk)
	_, err = w.Apply(ctx, live, empty)
	if isGone(err) {
		return nil
	}
	return err
}

// RemoveFinalizer releases a manager that owns only the finalizer, also where others own it: a tool that creates
// objects from an export states the finalizer and never removes it. It first takes the finalizer over from those
// managers, which it returns. On an object without managedFields, as after a reset, it only applies the finalizer, so
// that the API server attributes the other finalizers: a release beside unattributed ones removes them all. A second
// call with the new object then removes the finalizer.
func (w *Writer) RemoveFinalizer(ctx context.Context, live client.Object, finalizer string) (from []string, err error) {
	gvk, err := apiutil.GVKForObject(live, w.applier.client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", live, err)
	}
	path := fieldpath.MakePathOrDie("metadata", "finalizers", value.NewValueInterface(finalizer))
	c := w.applier.contract
	grant, granted := c.Grant(w.manager, ownership.Object{GroupVersionKind: gvk}, live.GetName())
	if !granted || !grant.Covers(path) {
		return nil, &NotGranted{Manager: w.manager, Object: gvk.Kind, Fields: []string{path.String()}}
	}
	if len(live.GetManagedFields()) == 0 {
		held := &emptyIntent{metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: live.GetName(), Namespace: live.GetNamespace(), Finalizers: []string{finalizer},
		}}}
		held.SetGroupVersionKind(gvk)
		_, err := w.Apply(ctx, live, held)
		return nil, err
	}
	if c.Takeover != nil {
		var entries []metav1.ManagedFieldsEntry
		ours := fieldpath.NewSet(path)
		if entries, from, err = c.TakeOver(grant, live.GetName(), live.GetManagedFields(), ours, ours, true); err != nil {
			return nil, err
		}
		if entries != nil {
			if live, err = w.move(ctx, live, entries); isGone(err) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("taking the finalizer of %s %s as %s: %w", gvk.Kind, live.GetName(), w.manager, err)
			}
		}
	}
	return from, w.Release(ctx, live)
}

type emptyIntent struct{ metav1.PartialObjectMetadata }

// IsApplyConfiguration marks emptyIntent as an intent.
func (*emptyIntent) IsApplyConfiguration() {}

// Remove deletes live at the version that was read, because the decision rests on its owner; dependents are collected
// in the background. It succeeds if the object is gone, and returns ErrStale if the object moved, or may have and is of
// a kind that the process may only watch; *NotGranted if the contract does not let the writer's identity delete the
// kind.
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
		client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsConflict(err) {
		var now client.Object
		switch now, err = w.applier.read(ctx, gvk, key); {
		case err == nil && now.GetUID() != uid:
			return nil // the object we meant is gone
		case err == nil || apierrors.IsForbidden(err):
			err = ErrStale
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", gvk.Kind, key, err)
	}
	return nil
}
