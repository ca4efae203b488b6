// Package group is the kind MCPGroup: a set of servers that say themselves that they belong to it. It contributes
// nothing to what they run. It is pure.
package group

import (
	"math"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// Kind is MCPGroup.
type Kind struct{}

// Row has its managers.
func (Kind) Row() contract.Config { return contract.ConfigOf("MCPGroup") }

// New is an empty MCPGroup.
func (Kind) New() frame.Object { return &v1alpha1.MCPGroup{} }

// mostListed is how many members the status lists, as its schema says.
const mostListed = 500

// Intent states a status: who belongs to the group, and who is ready.
func (Kind) Intent(
	name, namespace string, status *v1alpha1ac.ConfigStatusApplyConfiguration, referrers []kinds.Object,
) runtime.ApplyConfiguration {
	count, ready := 0, 0
	of := v1alpha1ac.MCPGroupStatus()
	for _, server := range referrers {
		is := kinds.IsReady(server)
		if count++; is {
			ready++
		}
		if count <= mostListed {
			of.WithMembers(v1alpha1ac.GroupMember().WithKind(kinds.Of(server).Object.Kind).WithName(server.GetName()).
				WithReady(is))
		}
	}
	of.WithMemberCount(int32(min(count, math.MaxInt32))).WithReadyMembers(int32(min(ready, math.MaxInt32)))
	of.ConfigStatusApplyConfiguration = *status
	return v1alpha1ac.MCPGroup(name, namespace).WithStatus(of)
}

// Check takes every spec: nothing of it is enforced.
func (Kind) Check(frame.Object) frame.Verdict { return frame.Verdict{} }
