package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// storedRetry is how soon content that is missing in history is looked for again: no event tells that it is there.
const storedRetry = time.Minute

// keepAll has contents stand that are not the runner's. What of one must not be written now is no error. What gets the
// calls is asked on though another runner is to keep it, by how history has it.
func (r *Runner) keepAll(ctx context.Context, w snapshot, kept []v1alpha1.BackendContent, live bool) error {
	active := statusOf(w.owner).Active
	maps.DeleteFunc(r.stored, func(hash string, _ runconfig.RunConfig) bool {
		return (active == nil || active.Hash != hash) &&
			!slices.ContainsFunc(kept, func(c v1alpha1.BackendContent) bool { return c.Hash == hash })
	})
	maps.DeleteFunc(r.rendered, func(of rendering, _ *appsv1ac.StatefulSetApplyConfiguration) bool {
		return !slices.Contains(r.slots, of.slot)
	})
	var errs []error
	for _, content := range kept {
		if err := r.keep(ctx, w, content, live); !isSettled(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// keep has content stand in its slot as its own runner would have it. It states the revision that it finds there, or
// that under which history has the content: a number falls neither by that, nor does it take a Service that was newer.
//
// Whether something is to be repaired only who has the content can tell: it is read once. Where it cannot be read that
// is a problem only if something is seen to be missing.
func (r *Runner) keep(ctx context.Context, w snapshot, content v1alpha1.BackendContent, live bool) error {
	slot := workload.Slot(content.Slot)
	run, err := r.storedContent(ctx, content)
	if err != nil {
		if w.slots[slot].has(content.Hash) {
			return nil
		}
		r.nextPass = apply.ShortestWait(r.nextPass, storedRetry)
		return err
	}
	rev, err := r.keptRevision(w.slots[slot], content, revision.Revision(run.Workload))
	if err != nil {
		return err
	}
	run.Workload = runconfig.Workload(rev)
	_, err = r.write(ctx, w, slot, run, live)
	return err
}

// has reports whether the objects stand, for pods of content.
func (objects slotObjects) has(content string) bool {
	return objects.statefulSet != nil && objects.service != nil && objects.headless != nil && objects.hash() == content
}

// hash is that of the content for which the StatefulSet has pods made, empty without one.
func (objects slotObjects) hash() string {
	if objects.statefulSet == nil {
		return ""
	}
	return objects.statefulSet.Spec.Template.Annotations[workload.AnnotationBackendHash]
}

// keptRevision is the highest of those in a slot and the one under which history has the content. The error says that
// the slot has later content, which is not for this runner to replace.
func (r *Runner) keptRevision(
	objects slotObjects, content v1alpha1.BackendContent, stored revision.Revision,
) (highest revision.Revision, err error) {
	highest = stored
	for _, o := range objects.children() {
		rev, _, err := r.liveRevision(o)
		if err != nil {
			return rev, err
		}
		if rev.Generation > r.mine().Generation ||
			o.kind == kindStatefulSet && rev.Generation > stored.Generation && objects.hash() != content.Hash {
			return rev, &blocked{
				fmt.Sprintf("the %s of slot %d has the content of workload generation %d, and status.active and status.rollout "+
					"other content", o.kind, content.Slot, rev.Generation), v1alpha1.ReasonStandingBack,
			}
		}
		// Of equal ones that of the StatefulSet, which comes first, and of history the last.
		if rev.Valid() && (rev.Generation > highest.Generation || rev.Generation == highest.Generation && highest == stored) {
			highest = rev
		}
	}
	return highest, nil
}

// children are the objects in a slot as they were read.
func (objects slotObjects) children() (all []child) {
	if objects.statefulSet != nil {
		all = append(all, child{kind: kindStatefulSet, live: objects.statefulSet})
	}
	if objects.service != nil {
		all = append(all, child{kind: kindService, live: objects.service})
	}
	if objects.headless != nil {
		all = append(all, child{kind: kindHeadless, live: objects.headless})
	}
	return all
}

// storedContent is what history has of content, with the revision under which it has it. It is read from the API server
// once; a cache of all contents would be larger than what is ever read of it. The hash proves it, and who made the
// record does not: the number counts no further than this runner's.
func (r *Runner) storedContent(ctx context.Context, content v1alpha1.BackendContent) (runconfig.RunConfig, error) {
	if run, known := r.stored[content.Hash]; known {
		return run, nil
	}
	key := r.key(workload.ContentName(r.Run.Server.Name, content.Hash))
	record, err := get(ctx, r.Live, key, &appsv1.ControllerRevision{})
	if err != nil {
		return runconfig.RunConfig{}, err
	}
	run, err := r.readStored(record, content)
	if err != nil {
		return run, &blocked{
			fmt.Sprintf("a backend of content %.10s is to be kept, and ControllerRevision %s, from which it would be made "+
				"again, %v: write that content into the spec, or wait until other content gets the calls", content.Hash, key.Name,
				err), v1alpha1.ReasonBackendBlocked,
		}
	}
	if r.stored == nil {
		r.stored = map[string]runconfig.RunConfig{}
	}
	r.stored[content.Hash] = run
	return run, nil
}

func (r *Runner) readStored(
	record *appsv1.ControllerRevision, content v1alpha1.BackendContent,
) (run runconfig.RunConfig, err error) {
	if record == nil {
		return run, errors.New("is missing")
	}
	owner := metav1.GetControllerOfNoCopy(record)
	if owner == nil || owner.UID != types.UID(r.Run.Server.UID) {
		return run, errors.New("is not this server's")
	}
	rev, err := revision.Of(record.Annotations)
	if err == nil {
		run, err = workload.ReadContent(r.Run.Server, record.Data.Raw)
	}
	switch {
	case err != nil:
		return run, fmt.Errorf("cannot be read (%w)", err)
	case run.Rendering.Backend != content.Hash:
		return run, errors.New("has other content")
	case !rev.Valid() || rev.Generation >= r.mine().Generation: // the own number is of the own content
		return run, fmt.Errorf("has workload generation %d, which was not claimed", rev.Generation)
	}
	run.Workload = runconfig.Workload(rev)
	return run, nil
}
