package configs

import (
	"math"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// mostListed is how many workloads the status lists, as its schema says.
const mostListed = 500

// desiredStatus is what a pass wants a configuration to say.
type desiredStatus struct {
	// held says that its deletion has to wait.
	held bool
	// workloads is how many refer to it, and listed the first of them.
	workloads int32
	listed    []v1alpha1.WorkloadReference
}

// desired is computed from nothing but what was observed, so what no longer refers is left out.
func desired(w observed) desiredStatus {
	want := desiredStatus{held: len(w.servers) > 0, workloads: int32(min(len(w.servers), math.MaxInt32))}
	for i := range min(len(w.servers), mostListed) {
		want.listed = append(want.listed,
			v1alpha1.WorkloadReference{Kind: kinds.Of(w.servers[i]).Object.Kind, Name: w.servers[i].GetName()})
	}
	return want
}

// status states what the configuration says, and who refers to it.
func (want desiredStatus) status(verdict frame.Verdict) *v1alpha1ac.ConfigStatusApplyConfiguration {
	status := v1alpha1ac.ConfigStatus().WithWorkloads(want.workloads)
	status.Policies = verdict.Policies
	if verdict.Hash != "" {
		status.WithHash(verdict.Hash)
	}
	for _, l := range want.listed {
		status.WithReferencingWorkloads(v1alpha1ac.WorkloadReference().WithKind(l.Kind).WithName(l.Name))
	}
	return status
}
