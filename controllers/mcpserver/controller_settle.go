package mcpserver

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/controllers/apply"
)

// settle turns the end of a pass into what the queue understands, by apply.When.
// Of several things that went wrong each counts by itself: a write that timed out
// is retried also beside one that was refused. waits are when another pass is due
// though nothing happens, 0 for never; an error that is retried comes before them,
// for the queue takes no time beside it.
func settle(ctx context.Context, err error, waits ...time.Duration) (ctrl.Result, error) {
	if apply.When(err) == apply.Now {
		return ctrl.Result{}, apply.Only(err, apply.Now, apply.Later, apply.Never)
	}
	result := ctrl.Result{RequeueAfter: apply.Soonest(append(waits, apply.After(err))...)}
	refused := apply.Refused(err)
	switch {
	case apply.Only(err, apply.Never) != nil && result.RequeueAfter == 0:
		return result, reconcile.TerminalError(refused)
	case refused != nil:
		// The queue does not log what is not returned to it.
		logf.FromContext(ctx).Error(refused, "refused", "again", result.RequeueAfter.String())
	}
	return result, nil
}
