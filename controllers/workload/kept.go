package workload

import "github.com/freehold-dev/freehold/apis/v1alpha1"

// Switched reports whether the rollout of a status is past its switch: what is left is about the content before.
func Switched(status v1alpha1.MCPServerStatus) bool {
	return status.Active != nil && status.Rollout != nil && status.Rollout.Target.Hash == status.Active.Hash
}

// Replaces reports whether content that a runner finds claimed goes where the content is that gets the calls.
func Replaces(status v1alpha1.MCPServerStatus) bool {
	beside := status.Workload != nil && status.Workload.Strategy == v1alpha1.StrategySuccessive
	return !beside && (status.Rollout == nil || Switched(status))
}

// Kept are the contents of a backend that the runner of the claimed content, which has this hash, keeps beside its own:
// what gets the calls, and what has sessions left. It makes them of what history has under their ContentName.
func Kept(status v1alpha1.MCPServerStatus, own string) (kept []v1alpha1.BackendContent) {
	active, rollout := status.Active, status.Rollout
	if active == nil {
		return nil
	}
	if active.Hash != own && !Replaces(status) {
		kept = append(kept, active.BackendContent)
	}
	if Switched(status) && rollout.From != nil && rollout.From.Hash != own && rollout.From.Slot != active.Slot {
		kept = append(kept, *rollout.From)
	}
	return kept
}
