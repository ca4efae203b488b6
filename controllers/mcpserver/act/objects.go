package act

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// objects applies all that is the operator's. Nothing that was handed over is taken over while one object cannot be:
// half of it would serve nobody. All that stands in the way is then told at once.
func (x *pass) objects(ctx context.Context, a plan.Objects) error {
	x.opts = []apply.Option{apply.NoTakeover}
	err := x.group(ctx, a.Steps)
	if !errors.Is(err, apply.ErrForeign) {
		return err
	}
	if obstacles := x.obstacles(ctx, a.Steps); obstacles != nil {
		others := slices.DeleteFunc(apply.Parts(err), func(e error) bool { return errors.Is(e, apply.ErrForeign) })
		return errors.Join(append(others, obstacles)...)
	}
	x.opts = nil
	return x.group(ctx, a.Steps)
}

// group takes steps of which the later ones rest on the earlier ones. Content
// that does not run yet must not start without all that its pods need. What is in conflict is there.
func (x *pass) group(ctx context.Context, steps []plan.Step) (refused error) {
	x.ours = true
	for _, step := range steps {
		sound := apply.WithoutConflicts(refused) == nil
		switch a := step.Action.(type) {
		case plan.ApplyChild, plan.ApplyRunConfig:
			if errors.Is(refused, apply.ErrNamespaceTerminating) {
				continue // nor would the others be born
			}
		case plan.ApplyProxy:
			if !sound && (!a.Stands || !x.ours && !a.Suspended) {
				continue
			}
		}
		if step.When == plan.Unsound && sound {
			continue
		}
		refused = errors.Join(refused, x.object(ctx, step.Action))
	}
	return refused
}

func (x *pass) object(ctx context.Context, action plan.Action) error {
	manager := x.s.Kind.ChildrenManager
	switch a := action.(type) {
	case plan.ApplyIdentity:
		return x.identity(ctx, a)
	case plan.ApplyChild:
		_, err := x.Apply(ctx, a.Manager, a.Live, a.Intent, x.opts...)
		return err
	case plan.ApplyRunConfig:
		return x.runConfig(ctx, a)
	case plan.ApplyProxy:
		return x.proxy(ctx, a)
	case plan.StopProxy:
		_, err := x.Apply(ctx, manager, a.Live, a.Intent, apply.AtVersion, apply.KeepOwned)
		return err
	case plan.RemoveRunConfig:
		return x.Remove(ctx, manager, a.Live)
	case plan.RemovePolicy:
		return x.Remove(ctx, manager, a.Policy)
	}
	return fmt.Errorf("nothing does %T", action)
}

// identity applies the runner's ServiceAccount, Role and RoleBinding, each only after the one that it rests on: bound
// to an account with another owner, the runner's rights would be that owner's, and a Role with another owner may hold
// anything. Where one of the two has another owner, the RoleBinding that we made goes.
func (x *pass) identity(ctx context.Context, a plan.ApplyIdentity) (refused error) {
	opts := x.opts
	if a.Untaken {
		opts = []apply.Option{apply.NoTakeover}
	}
	for i, part := range a.Children {
		_, err := x.Apply(ctx, part.Manager, part.Live, part.Intent, opts...)
		if conflicts := apply.Conflicts(err); conflicts != nil && part.Lost {
			err = fmt.Errorf("%w: %s", apply.ErrForeign, conflicts[0].String()) // it refuses, so it is no conflict
		}
		refused = errors.Join(refused, err)
		if apply.WithoutConflicts(err) == nil {
			continue
		}
		if errors.Is(err, apply.ErrForeign) || part.Lost && apply.RetryOf(err) != apply.OnEvent {
			x.ours = i > 0
			refused = errors.Join(refused, x.unbind(ctx))
		}
		break
	}
	return refused
}

func (x *pass) unbind(ctx context.Context) error {
	if !x.s.Binding.Ours() {
		return nil
	}
	if err := x.Remove(ctx, x.s.Kind.RightsManager, x.s.Binding.Live); err != nil {
		return err
	}
	report.RightsWithdrawn(x.Pass, x.s.Binding.Live.Name)
	return nil
}

func (x *pass) runConfig(ctx context.Context, a plan.ApplyRunConfig) error {
	config, err := x.content().ConfigMap(x.made.Target.Generation)
	if err != nil {
		return err
	}
	done, err := x.Apply(ctx, x.s.Kind.ChildrenManager, a.Live, config, x.opts...)
	if err == nil {
		x.Applier.As(x.s.Kind.ChildrenManager).RememberAs(a.Live, a.Name, done)
	}
	return err
}

// content is what the plan's digest came of, rendered once a pass.
func (x *pass) content() workload.Rendered {
	if x.rendered == nil {
		x.rendered = new(x.Renderer.Rendered(x.s, x.made.Digest.Key))
	}
	return *x.rendered
}

// proxy applies the Deployment through the gate, so that a leader that
// does not know it has been replaced cannot roll it back.
func (x *pass) proxy(ctx context.Context, a plan.ApplyProxy) error {
	err := x.gatedProxy(ctx, x.s.Proxy(), a)
	if !errors.Is(err, apply.ErrExists) {
		return err
	}
	// The cache does not show what is there: decide on the server's.
	live, err := x.Reader.LiveProxy(ctx, x.s.Object)
	if err != nil {
		return err
	}
	return x.gatedProxy(ctx, live, a)
}

func (x *pass) gatedProxy(ctx context.Context, proxy *snapshot.Proxy, a plan.ApplyProxy) error {
	intent, opts := a.Kept, append(slices.Clone(x.opts), apply.AtVersion)
	if a.Kept == nil {
		if revision.Gate(x.made.Target, proxy.Exists(), proxy.Revision) == revision.StandBack {
			return nil // the next pass claims a number above, or it is said what stands in the way
		}
		var err error
		if intent, err = x.wanted(a); err != nil {
			return err
		}
	} else {
		opts = append(opts, apply.KeepOwned)
	}
	var left []string
	if proxy.Exists() {
		left = podtemplate.ClearHostNamespaces(intent.Spec.Template, proxy.Live.Spec.Template.Spec)
	}
	done, err := x.Apply(ctx, x.s.Kind.ChildrenManager, proxy.Live, intent, opts...)
	if err == nil && proxy.Exists() && a.Kept == nil {
		x.Applier.As(x.s.Kind.ChildrenManager).RememberAs(proxy.Live, a.Name, done)
	}
	if err == nil && done.Result == apply.Configured && len(left) > 0 {
		report.HostAccess(x.Pass, left)
	}
	return err
}

func (x *pass) wanted(a plan.ApplyProxy) (*appsv1ac.DeploymentApplyConfiguration, error) {
	proxy, err := x.content().Proxy(x.made.Target.Generation)
	if err != nil {
		return nil, err
	}
	proxy.Spec.WithReplicas(a.Replicas)
	if a.StopsFirst {
		proxy.Spec.Strategy.RollingUpdate.WithMaxUnavailable(intstr.FromString("100%"))
	}
	return proxy, nil
}

func (x *pass) scaleBackend(ctx context.Context, a plan.ScaleBackend) error {
	intent := appsv1ac.StatefulSet(a.Live.Name, a.Live.Namespace).
		WithSpec(appsv1ac.StatefulSetSpec().WithReplicas(a.Replicas))
	_, err := x.Apply(ctx, contract.MCPServerScale, a.Live, intent)
	return err
}
