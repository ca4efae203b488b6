package act

import (
	"context"
	"errors"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// obstacles are what of the wanted objects stands in another hand and cannot be taken over.
func (x *pass) obstacles(ctx context.Context, steps []plan.Step) error {
	var errs []error
	adoptable := func(child plan.Child) {
		errs = append(errs, x.Applier.As(child.Manager).Adoptable(ctx, child.Live, child.Intent))
	}
	manager := x.s.Kind.ChildrenManager
	for _, step := range steps {
		switch a := step.Action.(type) {
		case plan.ApplyIdentity:
			for _, child := range a.Children {
				adoptable(child)
			}
		case plan.ApplyChild:
			adoptable(a.Child)
		case plan.ApplyRunConfig:
			config, err := x.content().ConfigMap(x.made.Target.Generation)
			if err != nil {
				return err
			}
			adoptable(plan.Child{Manager: manager, Live: a.Live, Intent: config})
		case plan.ApplyProxy:
			if a.Kept != nil {
				continue
			}
			proxy, err := x.wanted(a)
			if err != nil {
				return err
			}
			adoptable(plan.Child{Manager: manager, Live: x.s.Proxy().Live, Intent: proxy})
		}
	}
	if !x.made.Kept() {
		errs = append(errs, x.foreignBackend(ctx))
	}
	return errors.Join(errs...)
}

// foreignBackend is why the runner could not take over the backend's StatefulSet, as far
// as the operator can tell, which may not write as a runner.
func (x *pass) foreignBackend(ctx context.Context) error {
	server := x.s.Object
	if !x.s.Kind.Backend || x.s.Backend().Ours() {
		return nil
	}
	key, live := client.ObjectKey{Namespace: server.GetNamespace(), Name: x.s.Active.Name(server.GetName())},
		&appsv1.StatefulSet{}
	if err := x.Reader.Live.Get(ctx, key, live); err != nil {
		return client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOfNoCopy(live)
	var err error
	switch {
	case owner != nil && owner.UID == server.GetUID(),
		ownership.Entry(live.ManagedFields, contract.RunnerBackend, "") != nil:
		return nil
	case live.Annotations[contract.AdoptAnnotation] != "true":
		err = apply.ErrForeign
	case owner != nil:
		err = &apply.Unadoptable{Err: fmt.Errorf(
			"%s %s controls it: remove that owner from its metadata.ownerReferences first", owner.Kind, owner.Name)}
	case !fits(live, server.GetName(), x.s.Active):
		err = &apply.Unadoptable{Err: errors.New(
			"field is immutable: its spec.selector, spec.serviceName or spec.podManagementPolicy is another than Freehold's")}
	default:
		return nil
	}
	return fmt.Errorf("adopting StatefulSet %s as %s: %w", key, contract.RunnerBackend, err)
}

// fits reports whether a StatefulSet has the values of Freehold where they cannot change.
func fits(s *appsv1.StatefulSet, server string, slot workload.Slot) bool {
	return s.Spec.Selector != nil && len(s.Spec.Selector.MatchExpressions) == 0 &&
		maps.Equal(s.Spec.Selector.MatchLabels, workload.Selector(server, slot.Component())) &&
		s.Spec.ServiceName == slot.HeadlessName(server) && s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
}
