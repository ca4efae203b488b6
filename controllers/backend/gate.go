package backend

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// object is one of the backend's objects: how it was read, nil if it was not
// there, and how it should be.
type child struct {
	kind   string
	live   client.Object
	intent runtime.ApplyConfiguration
	// under is the intent as another revision would state it, nil for an object that
	// always carries the latest.
	atRevision func(revision.Revision) runtime.ApplyConfiguration
}

// standingBack is the error of an object that is not this runner's to write
// now. It names what stands in the way.
type blocked struct {
	why string
	// reason is StandingBack where time cures it, else one that says so.
	reason string
}

func (e *blocked) Error() string { return e.why }

// errBeingDeleted is the error of an object that is being deleted: whatever was
// written to it would be lost. Its end is an event.
var errBeingDeleted = errors.New("an object of the backend is being deleted")

// errOtherContent is the error of an object with other content under our number. The
// runner of that content reports; two reports in turns would never end.
var errOtherContent = errors.New("an object of the backend carries other content under the same workload generation")

// settled reports whether there is nothing to do and nothing to say.
func isSettled(err error) bool {
	return errors.Is(err, errBeingDeleted) || errors.Is(err, errOtherContent) ||
		errors.Is(err, apply.ErrNamespaceTerminating)
}

// write brings the three objects to the run config's content. The StatefulSet
// is first, because its revision decides for all; each Service then passes the gate
// on its own revision, for the StatefulSet may have been raised since. A field conflict
// on one of them does not keep the others from being made.
//
// The StatefulSet is raised also where only the proxy's half is new: that write keeps
// out a runner of an older generation that decided before it. A Service that is right
// then keeps its revision, which is that of the last change of the backend: a runner
// below that cannot write it, and those above mean the same by it.
func (r *Runner) write(ctx context.Context, w snapshot, live bool) (revision.Decision, error) {
	statefulSet, err := r.statefulSet(w)
	if err != nil {
		return revision.StandBack, err
	}
	services := r.services(w)
	if err := r.obstacles(ctx, append(services, statefulSet), live); err != nil {
		return revision.StandBack, err
	}
	decision, err := r.gatedApply(ctx, statefulSet, live)
	for _, service := range services {
		if apply.WithoutConflicts(err) != nil {
			break
		}
		if !r.hasContent(w.statefulSet) {
			service.atRevision = nil
		}
		_, e := r.gatedApply(ctx, service, live)
		err = errors.Join(err, e)
	}
	return decision, err
}

// obstacles are what keeps the objects, of which the last is the StatefulSet, from being taken over together: its pods
// are of no use to who calls them by a Service that stays in another hand. A StatefulSet with a revision is ours.
func (r *Runner) obstacles(ctx context.Context, objects []child, live bool) error {
	rev, exists, err := r.liveRevision(objects[len(objects)-1])
	if !exists || err != nil || rev.Valid() || !live {
		return nil //nolint:nilerr // the gate says that
	}
	var errs []error
	for _, o := range objects {
		errs = append(errs, r.Applier.As(contract.RunnerBackend).Adoptable(ctx, o.live, o.intent))
	}
	return errors.Join(errs...)
}

// through writes an object if the gate lets it pass: every write is conditional
// on what the gate was shown, a birth on absence and all else on the version
// that was read. An absence that only a cache knows is not believed, and neither
// is a revision that was lost: since it was read, a newer runner may have reported,
// or the server been suspended.
func (r *Runner) gatedApply(ctx context.Context, o child, live bool) (revision.Decision, error) {
	rev, exists, err := r.liveRevision(o)
	if err != nil {
		return revision.StandBack, err
	}
	decision := revision.Gate(r.mine(), exists, rev)
	switch {
	case decision == revision.StandBack && rev.Generation == r.mine().Generation:
		return decision, errOtherContent
	case decision == revision.StandBack:
		return decision, &blocked{
			fmt.Sprintf("the %s has the content of workload generation %d, and this proxy pod that of %d", o.kind,
				rev.Generation, r.mine().Generation), v1alpha1.ReasonStandingBack,
		}
	case rev.Generation == 0 && !live:
		return decision, errLookLive
	case decision == revision.Raise && rev.Valid() && o.atRevision != nil:
		if same, err := r.Applier.As(contract.RunnerBackend).Unchanged(ctx, o.live, o.atRevision(rev)); same || err != nil {
			return decision, err
		}
	}
	return decision, r.applyAs(ctx, contract.RunnerBackend, o.live, o.intent, apply.AtVersion)
}

// stands reads the revision of an object. The error says that it may not be judged
// by its revision at all.
func (r *Runner) liveRevision(o child) (rev revision.Revision, exists bool, err error) {
	if o.live == nil {
		return revision.Revision{}, false, nil
	}
	if o.live.GetDeletionTimestamp() != nil {
		return revision.Revision{}, true, errBeingDeleted
	}
	owner := metav1.GetControllerOfNoCopy(o.live)
	if owner != nil && owner.Kind == "MCPServer" && owner.Name == r.Run.Server.Name &&
		string(owner.UID) != r.Run.Server.UID {
		return revision.Revision{}, true,
			&blocked{
				"the " + o.kind + " belongs to an earlier server of this name and has not been collected yet",
				v1alpha1.ReasonStandingBack,
			}
	}
	if rev, err = revision.Of(o.live.GetAnnotations()); err != nil {
		return revision.Revision{}, true, &blocked{
			fmt.Sprintf("the %s does not say which content it has: %v; delete it, and Freehold makes it again", o.kind, err),
			v1alpha1.ReasonBackendBlocked,
		}
	}
	return rev, true, nil
}
