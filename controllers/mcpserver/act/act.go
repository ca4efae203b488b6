// Package act does what a plan says, through the writer. It decides nothing about a spec: only, by what an earlier
// action came to, whether a later one is taken.
package act

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/render"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Actor does what plans say.
type Actor struct {
	Applier  *apply.Applier
	Reader   *snapshot.Reader
	Renderer *render.Renderer
}

type pass struct {
	*Actor
	*reconcile.Pass
	s    *snapshot.Snapshot
	made plan.Plan
	// owner has what the release and the server say of all objects.
	owner workload.Owner
	// rendered is the content, nil before it was needed.
	rendered *workload.Rendered
	opts     []apply.Option
	// told are the errors of which the report says what they mean, untold all others. The pass ends with both.
	told, untold error
	// routed is what the write of the HTTPRoute came to.
	routed report.Routed
	// claimRefused says that the claim was refused, ours that pods may be started as the runner's account.
	claimRefused, ours bool
}

// Execute takes the steps of a plan in their order, and returns what went wrong.
func (a *Actor) Execute(ctx context.Context, p *reconcile.Pass, s *snapshot.Snapshot, made plan.Plan) error {
	x := &pass{Actor: a, Pass: p, s: s, made: made, owner: workload.OwnerWith(s.Object, a.Renderer.Release.Objects)}
	p.Before = s.Last.Phase
	p.Due(made.Wake)
	report.RefusedPods(p, s)
	for _, step := range made.Steps {
		if (step.When == plan.ClaimRefused) != x.claimRefused {
			continue
		}
		if ends := x.take(ctx, step.Action); ends {
			break
		}
	}
	return errors.Join(x.untold, x.told)
}

// applyRoute keeps what is refused of the HTTPRoute out of the errors of the pass: these make the queue wait for longer
// each time, also for what serves.
func (x *pass) applyRoute(ctx context.Context, a plan.ApplyRoute) {
	done, news, err := x.ApplyAside(ctx, a.Manager, a.Live, a.Intent, contract.HTTPRoute.Kind)
	x.routed = report.Routed{Written: done.Result != apply.Unchanged, Err: err}
	switch {
	case news && apply.RetryOf(err) == apply.RetryNow:
		x.Due(routeAgain)
	case err != nil: // also where the kind has gone, since nothing tells when it is back
		x.Due(cmp.Or(apply.RetryDelay(err), snapshot.RecheckRoutes))
	}
}

// routeAgain is when an HTTPRoute is written again where the API server did not answer, or a webhook did not, for the
// first time: one that is down would get a write of each server.
const routeAgain = 10 * time.Second

func (x *pass) take(ctx context.Context, action plan.Action) (ends bool) {
	switch a := action.(type) {
	case plan.HoldFinalizer:
		on, err := x.AddFinalizer(ctx)
		x.untold = errors.Join(x.untold, err)
		return !on
	case plan.RemovePolicy:
		err := x.Remove(ctx, x.s.Kind.ChildrenManager, a.Policy)
		if a.Ends {
			x.untold = errors.Join(x.untold, err)
			return err == nil // its end wakes the next pass
		}
		x.told = errors.Join(x.told, err)
	case plan.ConfirmClaim:
		latest, err := x.Reader.IsLatest(ctx, x.s)
		x.untold = errors.Join(x.untold, err)
		return err != nil || !latest
	case plan.KeepClaim:
		x.Reader.Claims.Hold(x.s.Object.GetUID(), x.made.Target)
	case plan.Yield:
		if x.Reader.Claims.Lose(x.s.Object.GetUID(), x.s.Now) {
			report.Yields(x.Pass, x.s)
		}
		x.untold = errors.Join(x.untold, otherOperator{})
		return true
	case plan.MakeSessionKey:
		return x.claim(false, x.makeSessionKey(ctx, a))
	case plan.WriteClaim:
		return x.claim(x.writeClaim(ctx, a))
	case plan.WritePlan:
		return x.writePlan(ctx, a)
	case plan.EmptySlot:
		return x.emptySlot(ctx, a)
	case plan.Objects:
		x.told = errors.Join(x.told, x.objects(ctx, a))
	case plan.ApplyRoute:
		x.applyRoute(ctx, a)
	case plan.RemoveRoute:
		x.untold = errors.Join(x.untold, x.Remove(ctx, x.s.Kind.ChildrenManager, a.Live))
	case plan.StoreContent:
		x.untold = errors.Join(x.untold, report.NotKept(x.Pass, x.storeContent(ctx, a)))
	case plan.RemoveContent:
		x.untold = errors.Join(x.untold, report.NotKept(x.Pass, x.Remove(ctx, x.s.Kind.ChildrenManager, a.Live)))
	case plan.ScaleBackend:
		// What was refused is about content, and the scale is not.
		x.told = errors.Join(x.told, x.scaleBackend(ctx, a))
	case plan.Report:
		x.untold = errors.Join(x.untold, report.Write(ctx, x.Pass, x.s, x.made, x.told, x.routed))
		return true
	case plan.OrphanChildren, plan.StopProxies, plan.AwaitProxies, plan.DeleteBackend, plan.AwaitBackend,
		plan.DeletePolicy,
		plan.ReleaseFinalizer:
		return x.delete(ctx, a)
	default: // beside a claim that was refused, which is what is told
		x.untold = errors.Join(x.untold, x.object(ctx, a))
	}
	return false
}

// claim notes what a write of the claim came to. Where that was refused the pass goes on without it; after another
// error it ends.
func (x *pass) claim(ends bool, err error) bool {
	switch {
	case apply.Refused(err) != nil:
		x.claimRefused, x.told = true, errors.Join(x.told, err)
		return false
	case err != nil:
		x.untold = errors.Join(x.untold, err)
		return true
	}
	return ends
}

// otherOperator ends the pass over a server that is left to another operator.
type otherOperator struct{}

func (otherOperator) Error() string             { return "another operator runs other content of the same spec" }
func (otherOperator) RetryAfter() time.Duration { return snapshot.LeftTo }
