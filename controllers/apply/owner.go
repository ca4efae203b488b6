package apply

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// With --cascade=orphan the garbage collector removes the owner from its children, and then the owner. A writer with
// a stale cache would put the owner back and so have the children collected. So a write that relies on the owner in
// live is made at the version that was read, and an owner is added only after the server confirmed that it stays.

func (in intent) controller() *metav1.OwnerReference {
	return metav1.GetControllerOf(&unstructured.Unstructured{Object: in.content})
}

func refersTo(live client.Object, owner types.UID) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner })
}

// ours reports whether the intent's owner owns live, or our manager has written it before.
func (w *Writer) ours(live client.Object, in intent) bool {
	owner := in.controller()
	if owner == nil || refersTo(live, owner.UID) {
		return true
	}
	owned, err := ownership.Applied(live.GetManagedFields(), w.manager, "")
	return err == nil && !owned.Empty()
}

// atOwnedVersion adds the newest known version of live to pre, if live has the intent's controller: our own newer
// versions have it too.
func (w *Writer) atOwnedVersion(live client.Object, in intent, k memoryKey, pre preconditions) preconditions {
	if owner := in.controller(); pre.resourceVersion == "" && owner != nil && refersTo(live, owner.UID) {
		pre.resourceVersion = w.applier.memory.newestOutcome(live, k).ResourceVersion
	}
	return pre
}

// checkOwner returns ErrOwnerGone if the intent would add a controller that is being deleted or gone. It asks the
// server, because a cache may still show the owner.
func (w *Writer) checkOwner(ctx context.Context, live client.Object, in intent) error {
	owner := in.controller()
	if owner == nil || refersTo(live, owner.UID) {
		return nil
	}
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	stands, err := w.applier.read(ctx, kind, types.NamespacedName{Namespace: in.key.Namespace, Name: owner.Name})
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading the owner, %s %s: %w", owner.Kind, owner.Name, err)
	case err != nil, stands.GetUID() != owner.UID, stands.GetDeletionTimestamp() != nil:
		return ErrOwnerGone
	}
	return nil
}
