package mcpserver

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// held is what is said of a condition that there is nothing to say of, but that
// somebody else states as well. Without our part what they state is no
// condition, and the API server would refuse the whole report for it, each time
// until they stop. So it stays, and is False.
func held(server *v1alpha1.MCPServer, conditionType string) (conditions.Finding, bool) {
	if meta.FindStatusCondition(server.Status.Conditions, conditionType) == nil {
		return conditions.Finding{}, false
	}
	item := ownership.MustPath("status.conditions[type=" + conditionType + "].type")
	owners, err := ownership.Owners(server.ManagedFields, item)
	if err != nil {
		return conditions.Finding{}, false
	}
	var others []string
	for _, o := range owners {
		if o.Manager != string(contract.MCPServerConditions) || o.Operation != metav1.ManagedFieldsOperationApply {
			others = append(others, o.Manager)
		}
	}
	if len(others) == 0 {
		return conditions.Finding{}, false
	}
	slices.Sort(others)
	return conditions.False(v1alpha1.ReasonHeldByOthers, fmt.Sprintf(
		"this is not so; the condition stays because %s states it too: take it out of what that manager writes",
		strings.Join(slices.Compact(others), ", "))), true
}
