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
			"%s is not ready with this content, so no other one takes it: correct what its condition Ready says, or this "+
				"configuration", kinds.Title(plan.Failed)))
	}
	names, moves := map[Phase]string{}, false
	for _, m := range members {
		moves = moves || m.Phase == Moving || plan.Admits(m.Name) && (m.Phase == Waiting || m.Phase == Again)
		if first, ok := names[m.Phase]; !ok || m.Name < first {
			names[m.Phase] = m.Name
		}
	}
	name := func(phases ...Phase) string {
		for _, p := range phases {
			if n, ok := names[p]; ok {
				return n
			}
		}
		return ""
	}
	down, rest := name(Down), name(Waiting, Again, Moving)
	switch {
	case down != "" && !moves:
		return conditions.False(v1alpha1.ReasonRollingOut, fmt.Sprintf(
			"%s does not serve at present, and keeps its place until it does or is Stalled: its conditions say why",
			kinds.Title(down)))
	case rest != "" || down != "":
		return conditions.False(v1alpha1.ReasonRollingOut, fmt.Sprintf(
			"%d percent of the workloads that refer to this configuration take its present content at a time; the others "+
				"serve with the content before", percent))
	}
	if apart := name(Blocked, Free, Apart); apart != "" {
		return conditions.False(v1alpha1.ReasonRollingOut, fmt.Sprintf(
			"%s does not have this content yet: its conditions say why", kinds.Title(apart)))
	}
	return conditions.True(v1alpha1.ReasonRolledOut,
		"every workload that refers to this configuration has its present content")
}
