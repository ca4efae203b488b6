package act

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// writePlan ends the pass where it is not known whether it is written: what comes later rests on it. A refusal is told,
// but for that of the first pointer to slot 1: who finds none takes that slot.
func (x *pass) writePlan(ctx context.Context, a plan.WritePlan) (ends bool) {
	done, err := x.Apply(ctx, x.s.Kind.PlanManager, x.s.Object, x.planIntent(a), apply.AtVersion)
	ends = apply.WithoutConflicts(err) != nil && apply.Refused(err) == nil
	if ends || !a.Begins && x.s.Last.Active == nil && workload.Slot(a.Active.Slot) == workload.Slot1 {
		x.untold = errors.Join(x.untold, err)
	} else {
		x.told = errors.Join(x.told, err)
	}
	if err != nil || !a.Ends || done.Result == apply.Unchanged {
		x.claimRefused = a.Begins && err != nil
		return ends
	}
	report.Advances(x.Pass, x.s, a)
	return true // its event wakes the next pass
}

func (x *pass) planIntent(a plan.WritePlan) runtime.ApplyConfiguration {
	status := v1alpha1ac.MCPServerStatus().WithActive(&v1alpha1ac.ActiveBackendApplyConfiguration{
		BackendContentApplyConfiguration: *contentIntent(&a.Active.BackendContent), Since: &a.Active.Since,
	})
	if a.Rollout != nil {
		rollout := v1alpha1ac.RolloutStatus().WithID(a.Rollout.ID).WithTarget(contentIntent(&a.Rollout.Target))
		if a.Rollout.From != nil {
			rollout.WithFrom(contentIntent(a.Rollout.From))
		}
		for i := range a.Rollout.Steps {
			rollout.WithSteps(stepIntent(&a.Rollout.Steps[i]))
		}
		status.WithRollout(rollout)
	}
	if last := a.Last; last != nil {
		outcome := v1alpha1ac.RolloutOutcome().WithID(last.ID).WithState(last.State).WithAt(last.At)
		outcome.Generation, outcome.Attempt = stated(last.Generation), stated(last.Attempt)
		outcome.Hash, outcome.Reason, outcome.Message = stated(last.Hash), stated(last.Reason), stated(last.Message)
		status.WithLastRollout(outcome)
	}
	return v1alpha1ac.MCPServer(x.s.Object.GetName(), x.s.Object.GetNamespace()).WithStatus(status)
}

func contentIntent(c *v1alpha1.BackendContent) *v1alpha1ac.BackendContentApplyConfiguration {
	return v1alpha1ac.BackendContent().WithSlot(c.Slot).WithHash(c.Hash).WithGeneration(c.Generation).
		WithPort(c.Port).WithPath(c.Path).WithTransport(c.Transport)
}

func stepIntent(s *v1alpha1.RolloutStep) *v1alpha1ac.RolloutStepApplyConfiguration {
	step := v1alpha1ac.RolloutStep().WithName(s.Name).WithState(s.State)
	step.Reason, step.Message = stated(s.Reason), stated(s.Message)
	step.StartedAt, step.Since, step.Deadline, step.Remaining = s.StartedAt, s.Since, s.Deadline, s.Remaining
	return step
}

// stated is a value, nil for none.
func stated[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

// emptySlot deletes at the version that was read what stands in a slot. The server is read live before: where the cache
// does not show yet that a rollout uses the slot, it may show what that has made there.
func (x *pass) emptySlot(ctx context.Context, a plan.EmptySlot) (ends bool) {
	latest, err := x.Reader.IsLatest(ctx, x.s)
	if err != nil || !latest {
		x.untold = errors.Join(x.untold, err)
		return true // an event is on its way
	}
	for _, object := range a.Objects { // nothing that serves rests on it
		x.untold = errors.Join(x.untold, x.Remove(ctx, x.s.Kind.ChildrenManager, object))
	}
	return false
}
