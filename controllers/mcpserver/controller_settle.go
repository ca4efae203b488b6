package mcpserver

import (
	"context"
	"errors"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/controllers/apply"
)

// foreignRetry is how often a server looks again whether a name that it needs
// is free. A timer, because objects that are not ours are not watched.
const foreignRetry = time.Minute

// refusedRetry is how often a write that the API server refused is tried again.
// A timer, because the end of somebody's admission policy is no event here.
const refusedRetry = 10 * time.Minute

// settle turns the end of a pass into what the queue understands. Where the
// object moved or went under the pass, its event is on the way and wakes the
// next one; what was refused, or is fought for, is tried again after a while,
// the shortest of several; what the contract does not grant is never sent; all
// else is retried. Of several things that went wrong each counts by itself: a
// write that timed out is retried also beside one that was refused. waits are when
// another pass is due though nothing happens, 0 for never; an error that is
// retried comes before them, for the queue takes no time beside it.
func settle(ctx context.Context, err error, waits ...time.Duration) (ctrl.Result, error) {
	result := ctrl.Result{RequeueAfter: soonest(waits...)}
	var retried, refused, final []error
	again := func(after time.Duration) { result.RequeueAfter = soonest(result.RequeueAfter, after) }
	for _, e := range parts(err) {
		var bad *apply.BadIntent
		var outside *apply.NotGranted
		var fought *apply.Fought
		switch {
		case errors.As(e, &fought):
			again(fought.Again)
		case e == nil, moved(e), errors.Is(e, apply.ErrNamespaceTerminating):
		case errors.Is(e, apply.ErrForeign):
			again(foreignRetry)
		case errors.Is(e, errRival):
			again(rivalPatience)
		case errors.As(e, &bad):
			refused = append(refused, e)
			again(refusedRetry)
		case errors.As(e, &outside):
			final = append(final, e)
		default:
			retried = append(retried, e)
		}
	}
	switch {
	case len(retried) > 0:
		return ctrl.Result{}, errors.Join(slices.Concat(retried, refused, final)...)
	case len(final) > 0 && result.RequeueAfter == 0:
		return ctrl.Result{}, reconcile.TerminalError(errors.Join(final...))
	case len(refused)+len(final) > 0:
		// The queue does not log what is not returned to it.
		logf.FromContext(ctx).Error(errors.Join(append(refused, final...)...), "refused", "again", result.RequeueAfter.String())
	}
	return result, nil
}

// soonest is the shortest of those that are more than nothing.
func soonest(waits ...time.Duration) (first time.Duration) {
	for _, wait := range waits {
		if wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	return first
}

// parts are the errors that were joined into err. Those of the writer are not
// taken apart: each is wrapped as one.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, parts(e)...)
	}
	return all
}

// moved reports whether an object changed, or went, after it was read.
func moved(err error) bool {
	return errors.Is(err, apply.ErrStale) || errors.Is(err, apply.ErrGone) || errors.Is(err, apply.ErrReincarnated)
}
