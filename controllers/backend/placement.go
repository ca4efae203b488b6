package backend

import (
	"cmp"
	"slices"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// placement says which content goes where.
type placement struct {
	// own is the slot of the runner's content, 0 where it has none, for which why is the reason.
	own workload.Slot
	why string
	// rollout is the id of that to the runner's content, empty where the content gets the calls, or there is none. Back is
	// the slot to which a rollout is that has not come to the backend yet: that content may stand there, with sessions.
	rollout string
	back    workload.Slot
	// serves is what gets the calls, nil where that is the runner's content, or is to be replaced by it in its place.
	serves *v1alpha1.BackendContent
	// kept are contents in other slots, which are not the runner's. No other runner may be left to keep them.
	kept []v1alpha1.BackendContent
}

// placementOf places a runner's content where the status has a slot for it, and has it keep what the status names
// beside, if its content is what is claimed or rolled out.
func placementOf(status v1alpha1.MCPServerStatus, run runconfig.RunConfig) (p placement) {
	active, rollout, mine := status.Active, status.Rollout, run.Rendering.Backend
	if active == nil { // an operator of an earlier release claimed it, which knows one slot
		return placement{own: workload.Slot1}
	}
	superseded := status.Workload != nil && status.Workload.Generation > run.Workload.Generation
	if !superseded || rollout != nil && rollout.Target.Hash == mine {
		p.kept = workload.Kept(status, mine)
	}
	switch switched := workload.Switched(status); {
	case active.Hash == mine:
		p.own = workload.Slot(active.Slot)
	case rollout != nil && rollout.Target.Hash == mine:
		p.rollout = rollout.ID
		switch {
		case rollout.Target.Slot == active.Slot:
			p.why = "the rollout is to the slot of the content that gets the calls"
		case !begun(rollout, stepCandidate):
			p.why, p.back = "the rollout has not come to the backend yet", workload.Slot(rollout.Target.Slot)
		default:
			p.own = workload.Slot(rollout.Target.Slot)
		}
	case switched && rollout.From != nil && rollout.From.Hash == mine && rollout.From.Slot != active.Slot:
		p.own = workload.Slot(rollout.From.Slot) // it has sessions, and may come back
	case !workload.Replaces(status):
		p.why = "the backend is of other content, and no rollout is to this one"
	case superseded && active.Generation < run.Workload.Generation:
		p.why = "the backend is of earlier content, and later content is to replace it"
	default:
		// Content replaces other content where that is: the gate keeps a runner of older content away once the newer one
		// has reported, and which content gets the calls may be said later.
		p.own = workload.Slot(active.Slot)
	}
	if active.Hash != mine && p.own != workload.Slot(active.Slot) {
		p.serves = &active.BackendContent
	}
	return p
}

// content is the hash of that of which the runner says whether it answers.
func (p placement) content(run runconfig.RunConfig) string {
	if p.serves != nil {
		return p.serves.Hash
	}
	return run.Rendering.Backend
}

// In stepCandidate a runner makes the candidate, and in stepCheck it says what it saw of it.
const (
	stepCandidate = "Candidate"
	stepCheck     = "Check"
)

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
