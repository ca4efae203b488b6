package reconcile

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/controllers/apply"
)

// End turns the end of the pass into what the queue understands, by apply.When.
// Of several things that went wrong each counts by itself: a write that timed
// out is retried also beside one that was refused. What is due comes after an
// error that is retried, for the queue takes no time beside it.
func (p *Pass) End(ctx context.Context, err error) (ctrl.Result, error) {
	if apply.When(err) == apply.Now {
		return ctrl.Result{}, apply.Only(err, apply.Now, apply.Later, apply.Never)
	}
	p.Due(apply.After(err))
	refused := apply.Refused(err)
	switch {
	case apply.Only(err, apply.Never) != nil && p.due == 0:
		return ctrl.Result{}, reconcile.TerminalError(refused)
	case refused != nil:
		// The queue does not log what is not returned to it.
		logf.FromContext(ctx).Error(refused, "refused", "again", p.due.String())
	}
	return ctrl.Result{RequeueAfter: p.due}, nil
}
