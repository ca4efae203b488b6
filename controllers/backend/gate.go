package backend

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// The objects of a slot, as messages name them.
const (
	kindStatefulSet = "StatefulSet"
	kindService     = "Service"
	kindHeadless    = "headless Service"
)

// child is one of the backend's objects: as read, nil if absent, and as intended.
type child struct {
	kind   string
	live   client.Object
	intent runtime.ApplyConfiguration
	// atRevision is the intent at another revision, nil for an object that always carries the latest.
	atRevision func(revision.Revision) runtime.ApplyConfiguration
}

// blocked is the error of an object that this runner must not write now. It names the obstacle.
type blocked struct {
	why string
	// reason is StandingBack where time cures it, else a specific one.
	reason string
}

func (e *blocked) Error() string { return e.why }

// errBeingDeleted: the object is being deleted, so a write would be lost. Its end is an event.
var errBeingDeleted = errors.New("an object of the backend is being deleted")

// errOtherContent: the object has other content under our number. Its runner reports; if both did, the reports would
// alternate for ever.
var errOtherContent = errors.New("an object of the backend carries other content under the same workload generation")

// isSettled reports whether there is nothing to do and nothing to report.
func isSettled(err error) bool {
	return errors.Is(err, errBeingDeleted) || errors.Is(err, errOtherContent) ||
		errors.Is(err, apply.ErrNamespaceTerminating)
}

// write applies content to the three objects of a slot, at the revision in run. The StatefulSet comes first, because
// its revision decides for all; each Service then passes the gate on its own revision, since the StatefulSet may have
// been raised meanwhile. A field conflict on one object does not stop the others.
//
// The StatefulSet is raised even if only the proxy's half is new: that keeps out a runner of an older generation that
// decided earlier. An unchanged Service keeps its revision, that of its own last change: a lower runner cannot write
// it. One in between, which had other ports and was paused before it wrote them, still can; that write wakes the pass
// that sets it right.
func (r *Runner) write(
	ctx context.Context, w snapshot, slot workload.Slot, run runconfig.RunConfig, live bool,
) (revision.Decision, error) {
	mine := revision.Revision(run.Workload)
	statefulSet, err := r.statefulSet(w, slot, run)
	if err != nil {
		return revision.StandBack, err
	}
	services := r.services(w, slot, run)
	if err := r.obstacles(ctx, append(services, statefulSet), live); err != nil {
		return revision.StandBack, err
	}
	decision, err := r.gatedApply(ctx, mine, statefulSet, live)
	for _, service := range services {
		if apply.WithoutConflicts(err) != nil {
			break
		}
		_, e := r.gatedApply(ctx, mine, service, live)
		err = errors.Join(err, e)
	}
	return decision, err
}

// obstacles are what keeps the objects, the last of which is the StatefulSet, from being taken over together: pods
// are of no use behind a Service of another owner. A StatefulSet with a revision is ours.
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

// gatedApply writes an object if the gate allows it. Each write is conditional on what the gate saw: a create on
// absence, all others on the version that was read. An absence or a lost revision is not believed from a cache: a
// newer runner may have reported since, or the server been suspended.
func (r *Runner) gatedApply(
	ctx context.Context, mine revision.Revision, o child, live bool,
) (revision.Decision, error) {
	rev, exists, err := r.liveRevision(o)
	if err != nil {
		return revision.StandBack, err
	}
	decision := revision.Gate(mine, exists, rev)
	switch {
	case decision == revision.StandBack && rev.Generation == mine.Generation:
		return decision, errOtherContent
	case decision == revision.StandBack:
		return decision, &blocked{
			fmt.Sprintf("the %s has the content of workload generation %d, and this proxy pod that of %d", o.kind,
				rev.Generation, mine.Generation), v1alpha1.ReasonStandingBack,
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

// liveRevision reads the revision of an object. An error means that the revision must not be used to decide.
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
