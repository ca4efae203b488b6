package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// snapshot is what one attempt has read: the owner, nil where it was absent, and what stands in the slots that its
// status names.
type snapshot struct {
	owner kinds.Object
	slots map[workload.Slot]slotObjects
}

// slotObjects is what stands in a slot; nil for what was absent.
type slotObjects struct {
	statefulSet *appsv1.StatefulSet
	service     *corev1.Service
	headless    *corev1.Service
}

func (objects slotObjects) podPort() int32 {
	if objects.headless != nil {
		for _, p := range objects.headless.Spec.Ports {
			if p.Name == podtemplate.PortMCP {
				return p.Port
			}
		}
	}
	return 0
}

// observe reads everything once, the server last: a newer runner reports before it writes, so no object is newer than
// the report that was read after it. Where the status names other slots than before it reads those, and the server
// again.
func (r *Runner) observe(ctx context.Context, reader client.Reader) (snapshot, error) {
	w := snapshot{slots: map[workload.Slot]slotObjects{}}
	if r.Run.Remote != nil || r.slots == nil {
		if err := r.readOwner(ctx, reader, &w); r.Run.Remote != nil || w.owner == nil || err != nil {
			return w, err
		}
		r.slots = slotsOf(statusOf(w.owner))
	}
	for range maxAttempts {
		clear(w.slots)
		for _, slot := range r.slots {
			var err error
			if w.slots[slot], err = r.readSlot(ctx, reader, slot); err != nil {
				return w, err
			}
		}
		if err := r.readOwner(ctx, reader, &w); err != nil || w.owner == nil {
			return w, err
		}
		named := slotsOf(statusOf(w.owner))
		if slices.Equal(named, r.slots) {
			return w, nil
		}
		r.slots = named
	}
	return w, errors.New("the status names other slots each time that it is read")
}

func (r *Runner) readSlot(
	ctx context.Context, reader client.Reader, slot workload.Slot,
) (objects slotObjects, err error) {
	name := r.Run.Server.Name
	if objects.statefulSet, err = get(ctx, reader, r.key(slot.Name(name)), &appsv1.StatefulSet{}); err != nil {
		return objects, err
	}
	if objects.service, err = get(ctx, reader, r.key(slot.Name(name)), &corev1.Service{}); err != nil {
		return objects, err
	}
	objects.headless, err = get(ctx, reader, r.key(slot.HeadlessName(name)), &corev1.Service{})
	return objects, err
}

func (r *Runner) readOwner(ctx context.Context, reader client.Reader, w *snapshot) error {
	kind, known := kinds.Named(r.Run.Server.Kind)
	if !known {
		return fmt.Errorf("the run config is of a %s, which this runner does not know", r.Run.Server.Kind)
	}
	var err error
	w.owner, err = get(ctx, reader, r.key(r.Run.Server.Name), kind.New())
	return err
}

func (r *Runner) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: r.Run.Server.Namespace, Name: name}
}

// get reads into obj and returns it, or nil if it is absent.
func get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, obj T) (T, error) {
	var none T
	err := reader.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// skipReason says why this runner must neither apply nor report, or is empty.
func (r *Runner) skipReason(w snapshot) string {
	mine, kind := r.mine().Generation, cmp.Or(r.Run.Server.Kind, "MCPServer")
	if w.owner == nil {
		return "the " + kind + " is gone"
	}
	switch status := w.owner.GetProxyStatus(); {
	case string(w.owner.GetUID()) != r.Run.Server.UID:
		return "the " + kind + " is another one of the same name"
	case w.owner.GetDeletionTimestamp() != nil:
		return "the " + kind + " is being deleted"
	case w.owner.GetProxySpec().Suspend:
		return "the " + kind + " is suspended"
	case status.Workload == nil || status.Workload.Generation < mine:
		// The status was lost, and the operator has not recovered the number yet. The API server would refuse our report.
		return fmt.Sprintf("status.workload of the %s does not know workload generation %d", kind, mine)
	case status.Workload.Generation == mine && status.Workload.Hash != r.mine().Hash:
		// A create of our content under this number would keep the claimed content out.
		return fmt.Sprintf("workload generation %d was claimed for other content", mine)
	case status.Runtime != nil && status.Runtime.Generation > mine:
		return fmt.Sprintf("workload generation %d has reported, ours is %d", status.Runtime.Generation, mine)
	}
	return ""
}
