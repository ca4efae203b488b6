package backend

import (
	"cmp"
	"context"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Standing is what proxies route by: what the status says, and what stands.
type Standing struct {
	// Active is the content that gets the calls, nil where the status does not say it, and Others are contents that are
	// tried or still have sessions.
	Active *v1alpha1.BackendContent
	Others []v1alpha1.BackendContent
	// Assumed is the content that is taken to get the calls where the status does not say it, nil where that was not
	// asked.
	Assumed *v1alpha1.BackendContent
	// Slots is what stands in the slots that the status names, nil where nothing was read of them.
	Slots map[workload.Slot]Stands
}

// Stands is what there is of the backend in a slot, whatever its content.
type Stands struct {
	// PodPort is where the pods listen that the headless Service was written for, 0 while there is none.
	PodPort int32
	// Runs identifies what all pods run, and Hash is the hash of that content: empty while there may be pods of two
	// contents.
	Runs, Hash string
}

// standingOf is what was seen.
func (r *Runner) standingOf(w snapshot) Standing {
	standing := r.pointer(w.owner)
	standing.Slots = map[workload.Slot]Stands{}
	if r.Run.Remote != nil {
		standing.Slots[workload.Slot1] = Stands{Runs: r.mine().Hash}
	}
	for slot, objects := range w.slots {
		stands := Stands{PodPort: objects.podPort()}
		if s := objects.statefulSet; rolledOut(s) {
			stands.Runs = string(s.UID) + "/" + s.Status.UpdateRevision
			stands.Hash = objects.hash()
		}
		standing.Slots[slot] = stands
	}
	return standing
}

// pointer is what the status of this runner's server says, nothing where it is gone.
func (r *Runner) pointer(owner kinds.Object) Standing {
	if owner == nil || string(owner.GetUID()) != r.Run.Server.UID {
		return Standing{}
	}
	active, others := contents(statusOf(owner))
	return Standing{Active: active, Others: others}
}

// Pointer is what the status says, as a reader has it, and whether the server is there. Where it is, and its status
// does not name a content, the pointer has none. Unlike other methods Pointer and Assumed may run beside them, once the
// runner has its clients.
func (r *Runner) Pointer(ctx context.Context, reader client.Reader) (pointer Standing, found bool, err error) {
	w := snapshot{}
	err = r.readOwner(ctx, reader, &w)
	return r.pointer(w.owner), w.owner != nil && string(w.owner.GetUID()) == r.Run.Server.UID, err
}

// Assumed is the content that is taken to get the calls of a server whose status does not say it, as after it was
// restored: what stands, of two contents that of the lower generation, and where nothing stands what the runner makes
// in slot 1. It asks the API server.
func (r *Runner) Assumed(ctx context.Context) (*v1alpha1.BackendContent, error) {
	of := r.Run.Backend
	all := []v1alpha1.BackendContent{}
	for _, slot := range workload.Slots {
		set, err := get(ctx, r.Live, r.key(slot.Name(r.Run.Server.Name)), &appsv1.StatefulSet{})
		if err != nil {
			return nil, err
		}
		if set == nil || metav1.GetControllerOfNoCopy(set) != nil &&
			!metav1.IsControlledBy(set, &metav1.ObjectMeta{UID: types.UID(r.Run.Server.UID)}) {
			continue // another's; the runner takes what nothing controls
		}
		rev, err := revision.Of(set.Annotations)
		if err != nil {
			rev.Generation = math.MaxInt64 // it is told last
		}
		all = append(all, v1alpha1.BackendContent{
			Slot: int32(slot), Generation: rev.Generation,
			Hash: set.Spec.Template.Annotations[workload.AnnotationBackendHash],
			Port: of.PodPort(), Path: of.Path, Transport: v1alpha1.Transport(of.Transport),
		})
	}
	if len(all) == 0 {
		return &v1alpha1.BackendContent{
			Slot: int32(workload.Slot1), Hash: r.Run.Rendering.Backend, Generation: r.mine().Generation,
			Port: of.PodPort(), Path: of.Path, Transport: v1alpha1.Transport(of.Transport),
		}, nil
	}
	if len(all) == 1 { // content is replaced in its place: all proxies of a generation say the same of it
		all[0].Hash, all[0].Generation = r.Run.Rendering.Backend, r.mine().Generation
		return &all[0], nil
	}
	lowest := slices.MinFunc(all, func(a, b v1alpha1.BackendContent) int {
		return cmp.Compare(a.Generation, b.Generation)
	})
	return &lowest, nil
}
