package backend

import (
	"cmp"
	"slices"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// placement is content, and the slot where it belongs.
type placement struct {
	slot workload.Slot
	// content is what the status names and no run config of this runner has, nil for the runner's own.
	content *v1alpha1.BackendContent
}

// placements says which content goes where: a runner's own, where the status has a slot for it, else why says why it
// has none; and, while a rollout tries content beside it, what gets the calls: no other runner may be left to keep it.
func placements(status v1alpha1.MCPServerStatus, run runconfig.RunConfig) (all []placement, why string) {
	active, rollout, mine := status.Active, status.Rollout, run.Rendering.Backend
	if active == nil { // an operator of an earlier release claimed it, which knows one slot
		return []placement{{slot: workload.Slot1}}, ""
	}
	if active.Hash == mine {
		return []placement{{slot: workload.Slot(active.Slot)}}, ""
	}
	incumbent := placement{workload.Slot(active.Slot), &active.BackendContent}
	switch {
	case rollout == nil:
		// Content replaces other content where that is: the gate keeps a runner of older content away once the newer one
		// has reported, and which content gets the calls may be said later.
		return []placement{{slot: workload.Slot(active.Slot)}}, ""
	case rollout.Target.Hash != mine:
		why = "the backend is of other content, and no rollout is to this one"
	case rollout.Target.Slot == active.Slot:
		why = "the rollout is to the slot of the content that gets the calls"
	case !begun(rollout, stepCandidate):
		why = "the rollout has not come to the backend yet"
	default:
		return []placement{{slot: workload.Slot(rollout.Target.Slot)}, incumbent}, ""
	}
	return []placement{incumbent}, why
}

// stepCandidate is the step in which a runner makes the candidate.
const stepCandidate = "Candidate"

// begun reports whether a step of a rollout waits no more.
func begun(rollout *v1alpha1.RolloutStatus, name string) bool {
	return slices.ContainsFunc(rollout.Steps, func(s v1alpha1.RolloutStep) bool {
		return s.Name == name && s.State != v1alpha1.StepWaiting
	})
}

// statusOf is the status of a server, empty for another kind, which has no backend.
func statusOf(owner kinds.Object) v1alpha1.MCPServerStatus {
	if server, ok := owner.(*v1alpha1.MCPServer); ok {
		return server.Status
	}
	return v1alpha1.MCPServerStatus{}
}

// contents are those that a status names: what gets the calls, nil where it does not say that, and others, which are
// tried, or still have sessions.
func contents(status v1alpha1.MCPServerStatus) (active *v1alpha1.BackendContent, others []v1alpha1.BackendContent) {
	if status.Active == nil {
		return nil, nil
	}
	active = &status.Active.BackendContent
	if rollout := status.Rollout; rollout != nil {
		for _, other := range []*v1alpha1.BackendContent{&rollout.Target, rollout.From} {
			if other != nil && other.Hash != active.Hash {
				others = append(others, *other)
			}
		}
	}
	return active, others
}

// slotsOf are the slots that a status names, sorted.
func slotsOf(status v1alpha1.MCPServerStatus) (slots []workload.Slot) {
	active, others := contents(status)
	if active == nil {
		return []workload.Slot{workload.Slot1}
	}
	for _, content := range append(others, *active) {
		slots = append(slots, workload.Slot(content.Slot))
	}
	slices.SortFunc(slots, cmp.Compare[workload.Slot])
	return slices.Compact(slots)
}
