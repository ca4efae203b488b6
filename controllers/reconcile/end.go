package reconcile

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/controllers/apply"
)

// A refused write is tried again after firstWait, then after twice as long each time, up to apply.MaxRetryDelay: the
// right or policy that it lacks may be on its way.
const firstWait = time.Second

// refusal is the last refused write of an object.
type refusal struct {
	text string
	wait time.Duration
}

// End returns what the queue does next, by apply.RetryOf. Each of several errors counts by itself: a write that timed
// out is retried beside one that was refused. The queue takes no time beside an error, so a retry precedes whatever
// is due. A refusal is logged once, until it changes or ends.
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
		// The queue logs only errors that are returned to it.
		logf.FromContext(ctx).Error(refused, "refused", "again", p.due.String())
	}
	return ctrl.Result{RequeueAfter: p.due}, nil
}

// noteRefusal remembers the refusal, schedules its retry, and reports whether it is new.
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
