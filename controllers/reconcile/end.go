package reconcile

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/controllers/apply"
)

// A write that was refused is tried again after firstWait, then after twice as long
// each time, and at least every apply.LaterAfter: what refuses it may be about to
// learn of a right or a policy.
const firstWait = time.Second

// refusal is what was refused when a pass over an object last ended.
type refusal struct {
	text string
	wait time.Duration
}

// End turns the end of the pass into what the queue understands, by apply.When.
// Of several things that went wrong each counts by itself: a write that timed
// out is retried also beside one that was refused. What is due comes after an
// error that is retried, for the queue takes no time beside it. A refusal is logged
// once, until it is another or has ended.
func (p *Pass) End(ctx context.Context, err error) (ctrl.Result, error) {
	p.count(err)
	if apply.RetryOf(err) == apply.RetryNow {
		return ctrl.Result{}, apply.OnlyRetried(err, apply.RetryNow, apply.RetryLater, apply.Terminal)
	}
	p.Due(apply.RetryDelay(err))
	refused := apply.Refused(err)
	if apply.OnlyRetried(err, apply.Terminal) != nil && p.due == 0 {
		return ctrl.Result{}, reconcile.TerminalError(refused)
	}
	if p.noteRefusal(refused) {
		// The queue does not log what is not returned to it.
		logf.FromContext(ctx).Error(refused, "refused", "again", p.due.String())
	}
	return ctrl.Result{RequeueAfter: p.due}, nil
}

// refused notes what was refused, when it is due again, and whether it is news.
func (p *Pass) noteRefusal(err error) (news bool) {
	uid := p.object.GetUID()
	if err == nil {
		p.core.lastRefused.Remove(uid)
		return false
	}
	remembered, _ := p.core.lastRefused.Get(uid)
	last, _ := remembered.(refusal)
	now := refusal{text: err.Error(), wait: max(firstWait, min(2*last.wait, apply.MaxRetryDelay))}
	p.core.lastRefused.Add(uid, now)
	if apply.OnlyRetried(err, apply.RetryLater) != nil {
		p.Due(now.wait)
	}
	return now.text != last.text
}
