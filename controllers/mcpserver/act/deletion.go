package act

import (
	"context"
	"errors"
	"time"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
)

// stopRetry is how often a failed stop of the proxies is tried again: more
// often than a growing backoff would, as it has to come true in time.
const stopRetry = 5 * time.Second

func (x *pass) delete(ctx context.Context, action plan.Action) (ends bool) {
	x.Phase = v1alpha1.PhaseStopping
	manager := x.s.Kind.ChildrenManager
	var err error
	switch a := action.(type) {
	case plan.StopProxies:
		err = x.stopProxies(ctx, a)
	case plan.DeleteBackend:
		report.PodsRemain(x.Pass, a)
		err = x.ReportRefusal(ctx, x.Remove(ctx, manager, a.Live))
	case plan.DeletePolicy:
		report.PodsRemain(x.Pass, a)
		err = x.Remove(ctx, manager, a.Live)
		if ends = err != nil; ends {
			err = x.ReportRefusal(ctx, err)
		}
	case plan.ReleaseFinalizer:
		err = x.RemoveFinalizer(ctx)
	default:
		err = x.ReportDeleting(ctx, v1alpha1.ConditionReconciling, report.Deleting(x.s, action))
	}
	x.untold = errors.Join(x.untold, err)
	return ends
}

func (x *pass) stopProxies(ctx context.Context, a plan.StopProxies) error {
	_, err := x.Apply(ctx, x.s.Kind.ChildrenManager, a.Live, a.Intent, apply.AtVersion, apply.KeepOwned)
	switch {
	case err == nil:
		return x.ReportDeleting(ctx, v1alpha1.ConditionReconciling, report.Deleting(x.s, a))
	case apply.RetryOf(err) == apply.OnEvent:
		return err
	}
	report.NotStopped(x.Pass, err)
	x.Due(stopRetry) // the end of patience is no event
	return nil
}
