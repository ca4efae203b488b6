package rollout

import (
	"fmt"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// RolledOut answers whether all members have the present content of a
// configuration. The words stay the same while the members move one by one.
func RolledOut(members []Member, percent int) conditions.Finding {
	plan := For(members, percent)
	if plan.Failed != "" {
		return conditions.False(v1alpha1.ReasonHeld, fmt.Sprintf(
			"%s is not ready with this content, so no other one takes it: correct what its condition Ready says, or this configuration", kinds.Title(plan.Failed)))
	}
	if name := elsewhere(plan, members); name != "" {
		return conditions.False(v1alpha1.ReasonRollingOut, fmt.Sprintf(
			"%s may take this content, and waits for its turn in another configuration, which its condition Ready names", kinds.Title(name)))
	}
	apart := ""
	for _, m := range members {
		switch {
		case m.Phase == Waiting || m.Phase == Moving:
			return conditions.False(v1alpha1.ReasonRollingOut, fmt.Sprintf(
				"%d percent of the workloads that refer to this configuration take its present content at a time; the others serve with the content before", percent))
		case m.Phase == Apart && (apart == "" || m.Name < apart):
			apart = m.Name
		}
	}
	if apart != "" {
		return conditions.False(v1alpha1.ReasonRollingOut, fmt.Sprintf(
			"%s does not have this content yet: its conditions say why", kinds.Title(apart)))
	}
	return conditions.True(v1alpha1.ReasonRolledOut, "every workload that refers to this configuration has its present content")
}

// elsewhere is the first of those that may go on, if none of them does, because each
// waits for another configuration; empty otherwise.
func elsewhere(plan Plan, members []Member) (first string) {
	for _, m := range members {
		switch {
		case m.Phase == Moving, m.Phase == Waiting && !m.Elsewhere && plan.Admits(m.Name):
			return ""
		case m.Elsewhere && plan.Admits(m.Name) && (first == "" || m.Name < first):
			first = m.Name
		}
	}
	return first
}
