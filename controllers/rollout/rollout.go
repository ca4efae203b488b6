// Package rollout decides which workloads take the changed content of a shared
// configuration now, so that at most a share of them is replaced at a time and the
// first that fails holds the others. It is pure, and remembers nothing: what is
// under way is read from what the workloads report, so that a new leader goes on.
//
// rollout.go has the plan, workload.go what it reads of a workload, condition.go
// what a configuration says of it.
package rollout

import (
	"cmp"
	"slices"
)

// Phase is where a workload is on its way to the present content of a
// configuration.
type Phase int

const (
	// Done has the content.
	Done Phase = iota
	// Waiting serves what it has, and takes the content once the plan admits it.
	Waiting
	// Moving was admitted, and is not ready since.
	Moving
	// Failed was admitted, and is in trouble.
	Failed
	// Apart does not serve with the content, and comes to it as soon as it can: it has
	// no pods, changes by itself, or is in trouble of its own.
	Apart
)

// Member is one of the workloads that refer to a configuration.
type Member struct {
	Name  string
	Phase Phase
	// Elsewhere says that it waits, and for its turn in another configuration.
	Elsewhere bool
}

// Plan is what holds for the members of one configuration at one time.
type Plan struct {
	// Admitted are those that may take the content now, sorted by name.
	Admitted []string
	// Failed is the first that failed, empty if none did.
	Failed string
}

// Admits reports whether the member of this name may take the content now.
func (p Plan) Admits(name string) bool { return slices.Contains(p.Admitted, name) }

// For makes the plan of the members of one configuration, of which at most
// percent of a hundred, and at least one, are under way at a time.
//
// Who decides sees each member as it was some time ago, and two who decide see
// different pasts. At most the budget is under way all the same, as long as a
// configuration changes once: a member is admitted only while fewer than the
// budget of those before it by name are not done. What looks done is done, for a
// member does not go back; so of those that are really not done it is among the
// first, as many as the budget says, and stays so until it is done. A second
// change may find the first under way: those are counted where they are seen.
func For(members []Member, percent int) Plan {
	members = slices.SortedFunc(slices.Values(members), func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	plan, free := Plan{}, Budget(len(members), percent)
	for _, m := range members {
		switch m.Phase {
		case Moving:
			free--
		case Failed:
			plan.Failed = cmp.Or(plan.Failed, m.Name)
		case Done, Waiting, Apart: // holds no place
		}
	}
	if plan.Failed != "" {
		return plan
	}
	for _, m := range members {
		if m.Phase == Waiting && free > 0 {
			plan.Admitted = append(plan.Admitted, m.Name)
			free--
		}
	}
	return plan
}

// DefaultPercent is how many of a hundred are under way at a time.
const DefaultPercent = 25

// Budget is how many of n members may be under way at a time.
func Budget(n, percent int) int { return max(1, n*percent/100) }
