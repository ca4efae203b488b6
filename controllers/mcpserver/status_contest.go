package mcpserver

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// contests are those over fields of the server and its children, and how long
// they will be remembered.
func (r *Reconciler) contests(server *v1alpha1.MCPServer) ([]apply.Contest, time.Duration) {
	return r.Applier.Contests(server.Namespace, func(c apply.Contest) bool { return isOf(server.Name, c) })
}

// isOf reports whether a contest is over the server or one of its children.
func isOf(server string, c apply.Contest) bool {
	switch c.Object.Kind {
	case contract.MCPServer.Kind:
		return c.Key.Name == server
	case contract.ConfigMap.Kind:
		return workload.IsRunConfigName(server, c.Key.Name)
	}
	return slices.Contains([]string{
		workload.RunnerName(server), workload.ProxyName(server), workload.BackendName(server), workload.HeadlessName(server),
	}, c.Key.Name)
}

// contended says who fights for fields of this server, in the runner's words for
// the backend's objects, which are the runner's.
func contended(server *v1alpha1.MCPServer, w world) *conditions.Finding {
	told := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionBackendApplied)
	ofBackend := told != nil && told.Reason == v1alpha1.ReasonContended
	var f conditions.Finding
	switch {
	case len(w.contests) > 0:
		f = conditions.Contended(w.contests)
		if ofBackend {
			f.Message += "; and of the backend: " + told.Message
		}
	case ofBackend:
		f = conditions.True(v1alpha1.ReasonContended, told.Message)
	default:
		return nil
	}
	return &f
}
