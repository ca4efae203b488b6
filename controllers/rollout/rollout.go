// Package rollout decides which workloads take the changed content of a shared configuration now, so that at most a
// share of them is replaced at a time and the first that fails holds the others. It is pure, and remembers nothing:
// what is under way is read from what the workloads have recorded, so that a new leader goes on.
//
// phase.go has the table of phases, workload.go the facts that it is read by, rollout.go the plan, turn.go what a
// workload does with it, condition.go what a configuration says.
package rollout

import (
	"cmp"
	"slices"
)

// Member is one of the workloads that refer to a configuration.
type Member struct {
	Name  string
	Phase Phase
}

// Plan is what holds for the members of one configuration at one time.
type Plan struct {
	// Admitted are those that may take the content now.
	Admitted []string
	// Failed is the first that failed, empty if none did.
	Failed string
}

// Admits reports whether the member of this name may take the content now.
func (p Plan) Admits(name string) bool { return slices.Contains(p.Admitted, name) }

// For makes the plan of the members of one configuration, of which at most percent of a hundred, and at least one,
// are under way at a time. None takes what one has failed with.
//
// Who decides sees each member as it was some time ago, and two who decide see different pasts. At most the budget is
// under way all the same, as long as a configuration changes once: a member is admitted only while fewer than the
// budget of those before it by name are not done. What looks done is done, for a member does not go back; so of those
// that are really not done it is among the first, as many as the budget says, and stays so until it is done. For that
// one that is down keeps its place. A second change may find the first under way, and one that had no place may come
// to have one: those are counted where they are seen.
func For(members []Member, percent int) Plan {
	members = slices.SortedFunc(slices.Values(members), func(a, b Member) int {
		return cmp.Or(-cmp.Compare(b2i(a.Phase == Again), b2i(b.Phase == Again)), cmp.Compare(a.Name, b.Name))
	})
	plan, free := Plan{}, Budget(len(members), percent)
	for _, m := range members {
		switch m.Phase {
		case Moving:
			free--
		case Failed:
			plan.Failed = cmp.Or(plan.Failed, m.Name)
		case Done, Again, Waiting, Down, Free, Blocked, Apart: // is not under way
		}
	}
	if plan.Failed != "" {
		return plan
	}
	for _, m := range members {
		switch {
		case free > 0 && (m.Phase == Again || m.Phase == Waiting):
			plan.Admitted = append(plan.Admitted, m.Name)
			free--
		case m.Phase == Down:
			free--
		}
	}
	for _, m := range members {
		if m.Phase == Free || m.Phase == Blocked && free > 0 {
			plan.Admitted = append(plan.Admitted, m.Name)
		}
	}
	return plan
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// DefaultPercent is how many of a hundred are under way at a time.
const DefaultPercent = 25

// Budget is how many of n members may be under way at a time.
func Budget(n, percent int) int { return max(1, n*percent/100) }
