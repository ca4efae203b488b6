package backend

import (
	"context"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Standing is what proxies route by: what the status says, and what stands.
type Standing struct {
	// Active is the content that gets the calls, nil where the status does not say it, and Others are contents that are
	// tried or still have sessions.
	Active *v1alpha1.BackendContent
	Others []v1alpha1.BackendContent
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
	for slot, t := range w.tracks {
		stands := Stands{PodPort: t.podPort()}
		if s := t.statefulSet; rolledOut(s) {
			stands.Runs = string(s.UID) + "/" + s.Status.UpdateRevision
			stands.Hash = t.hash()
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

// Look asks the API server what the status says, for a proxy that finds nobody where calls are to go. Unlike other
// methods it may run beside them, once the runner has its clients.
func (r *Runner) Look(ctx context.Context) (Standing, error) {
	w := snapshot{}
	err := r.readOwner(ctx, r.Live, &w)
	return r.pointer(w.owner), err
}
