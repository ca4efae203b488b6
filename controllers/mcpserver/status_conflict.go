package mcpserver

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// fieldConflict says who overwrites fields of this server, in the runner's words
// for the backend's objects, which are the runner's.
func fieldConflict(server *v1alpha1.MCPServer, w world) *conditions.Finding {
	told := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionBackendApplied)
	ofBackend := told != nil && told.Reason == v1alpha1.ReasonFieldConflict
	var f conditions.Finding
	switch {
	case len(w.conflicts) > 0:
		f = conditions.FieldConflict(w.conflicts)
		if ofBackend {
			f.Message += ". Of the backend: " + told.Message
		}
	case ofBackend:
		f = conditions.True(v1alpha1.ReasonFieldConflict, told.Message)
	default:
		return nil
	}
	return &f
}
