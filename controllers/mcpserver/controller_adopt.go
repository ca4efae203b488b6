package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// applyChildren applies all that is the operator's, and carries the scale to the backend.
// Nothing that was handed over is taken over while one object cannot be: half of it would
// serve nobody. All that stands in the way is then told at once.
func (r *Reconciler) applyChildren(ctx context.Context, p *pass, w world, want wanted) error {
	err := r.applyAround(ctx, p, w, want, apply.Untaken)
	if errors.Is(err, apply.ErrForeign) {
		if obstacles := r.obstacles(ctx, p, w, want); obstacles != nil {
			others := slices.DeleteFunc(apply.Parts(err), func(e error) bool { return errors.Is(e, apply.ErrForeign) })
			err = errors.Join(append(others, obstacles)...)
		} else {
			err = r.applyAround(ctx, p, w, want)
		}
	}
	// What was refused is about content, and the scale is not.
	return errors.Join(err, r.applyScale(ctx, p, w, want))
}

// obstacles are what of the wanted objects stands in another hand and cannot be taken over.
func (r *Reconciler) obstacles(ctx context.Context, p *pass, w world, want wanted) error {
	var errs []error
	for _, c := range slices.Concat(want.identity, want.children) {
		errs = append(errs, r.Applier.As(c.manager).Adoptable(ctx, c.live, c.ac))
	}
	if want.proxy != nil && !want.kept {
		errs = append(errs, r.Applier.As(r.kind.ChildrenManager).Adoptable(ctx, w.proxy, want.proxy))
		errs = append(errs, r.foreignBackend(ctx, p, w))
	}
	return errors.Join(errs...)
}

// foreignBackend is why the runner could not take over the backend's StatefulSet, as far
// as the operator can tell, which may not write as a runner.
func (r *Reconciler) foreignBackend(ctx context.Context, p *pass, w world) error {
	server := p.server
	if !kinds.Of(server).Backend || w.ownBackend {
		return nil
	}
	key, live := client.ObjectKey{Namespace: server.Namespace, Name: workload.BackendName(server.Name)}, &appsv1.StatefulSet{}
	if err := r.live.Get(ctx, key, live); err != nil {
		return client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOfNoCopy(live)
	var err error
	switch {
	case owner != nil && owner.UID == server.UID, ownership.Entry(live.ManagedFields, contract.RunnerBackend, "") != nil:
		return nil
	case live.Annotations[contract.AdoptAnnotation] != "true":
		err = apply.ErrForeign
	case owner != nil:
		err = &apply.Unadoptable{Err: fmt.Errorf("%s %s controls it: remove that owner from its metadata.ownerReferences first", owner.Kind, owner.Name)}
	case !fits(live, server.Name):
		err = &apply.Unadoptable{Err: errors.New("field is immutable: its spec.selector, spec.serviceName or spec.podManagementPolicy is another than Freehold's")}
	default:
		return nil
	}
	return fmt.Errorf("adopting StatefulSet %s as %s: %w", key, contract.RunnerBackend, err)
}

// fits reports whether a StatefulSet has the values of Freehold where they cannot change.
func fits(s *appsv1.StatefulSet, server string) bool {
	return s.Spec.Selector != nil && len(s.Spec.Selector.MatchExpressions) == 0 &&
		maps.Equal(s.Spec.Selector.MatchLabels, workload.Selector(server, workload.ComponentBackend)) &&
		s.Spec.ServiceName == workload.HeadlessName(server) && s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
}
