package rollout

import "github.com/freehold-dev/freehold/apis/v1alpha1"

// Turn is a configuration that a workload refers to, as it is now.
type Turn struct {
	v1alpha1.WorkloadConfig
	Phase Phase
	// Admitted says that the workload may run with that, Held that nobody may take it.
	Admitted, Held bool
}

// StaysRefused reports whether a workload whose claim was refused waits for a place to
// try again. Until then it says so, and not that it waits: else it would be the next.
func (t Turn) StaysRefused() bool { return t.Phase == Blocked && !t.Admitted && !t.Held }

// Turn is that of the workload. plan makes the plan of the configuration; it is asked only where the workload needs it.
func (w Workload) Turn(config v1alpha1.WorkloadConfig, plan func() (Plan, error)) (Turn, error) {
	return w.turn(config, w.Facts(config.Kind, config.Name, config.Hash).Phase(), plan)
}

func (w Workload) turn(config v1alpha1.WorkloadConfig, phase Phase, plan func() (Plan, error)) (Turn, error) {
	t := Turn{WorkloadConfig: config, Phase: phase}
	switch phase {
	case Done, Moving, Failed, Apart: // has it, or has nothing else
		t.Admitted = true
		return t, nil
	case Again, Waiting, Down, Free, Blocked:
	}
	p, err := plan()
	t.Admitted, t.Held = p.Admits(w.Name), p.Failed != ""
	return t, err
}

// Records is what a claim records of a configuration: of one whose turn it is not, what
// the workload has. same says that the claim keeps its number, so that nothing is taken.
func (w Workload) Records(t Turn, same bool) v1alpha1.WorkloadConfig {
	now := v1alpha1.WorkloadConfig{Kind: t.Kind, Name: t.Name, Hash: t.Hash}
	claimed, has := w.claimed(t.Kind, t.Name)
	keeps := has && (!t.Admitted || claimed.Hash == t.Hash)
	switch {
	case keeps && same:
		return claimed
	case keeps:
		// Also if it is changed on its way: it may have failed. A later change of its own holds up nobody.
		claimed.InTurn = (claimed.InTurn || w.Claim.ConfigRollout) && !w.HasServed()
		return claimed
	case same:
		return now
	}
	now.InTurn = t.Phase == Waiting || t.Phase == Again || t.Phase == Blocked
	return now
}
