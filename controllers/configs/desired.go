package configs

import (
	"math"

	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// mostListed is how many workloads the status lists, as its schema says.
const mostListed = 500

// desired is what the status is to say: what the configuration does, and who refers to it now.
func desired(verdict frame.Verdict, workloads []kinds.Object) *v1alpha1ac.ConfigStatusApplyConfiguration {
	status := v1alpha1ac.ConfigStatus().WithWorkloads(int32(min(len(workloads), math.MaxInt32)))
	status.Policies = verdict.Policies
	if verdict.Hash != "" {
		status.WithHash(verdict.Hash)
	}
	for _, w := range workloads[:min(len(workloads), mostListed)] {
		status.WithReferencingWorkloads(
			v1alpha1ac.WorkloadReference().WithKind(kinds.Of(w).Object.Kind).WithName(w.GetName()))
	}
	return status
}
