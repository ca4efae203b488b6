package backend

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// snapshot is what one attempt has read; nil for what was absent.
type snapshot struct {
	owner       kinds.Object
	statefulSet *appsv1.StatefulSet
	service     *corev1.Service
	headless    *corev1.Service
}

func (w snapshot) podPort() int32 {
	if w.headless != nil {
		for _, p := range w.headless.Spec.Ports {
			if p.Name == podtemplate.PortMCP {
				return p.Port
			}
		}
	}
	return 0
}

// observe reads everything once, the server last: a newer runner reports before it writes, so no object is newer than
// the report that was read after it.
func (r *Runner) observe(ctx context.Context, reader client.Reader) (snapshot, error) {
	name := r.Run.Server.Name
	w := snapshot{}
	if r.Run.Remote != nil {
		return w, r.readOwner(ctx, reader, &w)
	}
	var err error
	if w.statefulSet, err = get(ctx, reader, r.key(workload.BackendName(name)), &appsv1.StatefulSet{}); err != nil {
		return w, err
	}
	if w.service, err = get(ctx, reader, r.key(workload.BackendName(name)), &corev1.Service{}); err != nil {
		return w, err
	}
	if w.headless, err = get(ctx, reader, r.key(workload.HeadlessName(name)), &corev1.Service{}); err != nil {
		return w, err
	}
	return w, r.readOwner(ctx, reader, &w)
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
