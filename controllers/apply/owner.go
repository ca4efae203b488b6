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

// Whoever deletes an owner with --cascade=orphan wants its children to stay: the garbage
// collector takes the owner off them, and lets it go. A writer that puts the owner back,
// because its cache shows neither, has them collected. So what rests on the owner in live is
// written at the version that was read, and an owner that is not there is added only after
// the server said that it stays.

// controller is the controller that the intent states, nil if none.
func (in intent) controller() *metav1.OwnerReference {
	return metav1.GetControllerOf(&unstructured.Unstructured{Object: in.content})
}

// refersTo reports whether an object has an owner with this uid.
func refersTo(live client.Object, owner types.UID) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner })
}

// ours reports whether live is ours to write: it belongs to the owner that the
// intent states, or our manager has written it before.
func (w *Writer) ours(live client.Object, in intent) bool {
	owner := in.controller()
	if owner == nil || refersTo(live, owner.UID) {
		return true
	}
	owned, err := ownership.Applied(live.GetManagedFields(), w.manager, "")
	return err == nil && !owned.Empty()
}

// atOwned adds to pre the newest version that is known of live, where that has the controller
// of the intent: a version that we wrote has it too.
func (w *Writer) atOwnedVersion(live client.Object, in intent, k memoryKey, pre preconditions) preconditions {
	if owner := in.controller(); pre.resourceVersion == "" && owner != nil && refersTo(live, owner.UID) {
		pre.resourceVersion = w.applier.memory.newestOutcome(live, k).ResourceVersion
	}
	return pre
}

// checkOwner returns ErrOwnerGone if the intent would add its controller to live, and that is
// being deleted or gone. A cache may still show it, so the server is asked.
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
