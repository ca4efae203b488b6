package contract

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// IdentityOperator is the operator's process. It reads, reports events and holds the leader's Lease; it writes as one
// of Controllers.
const IdentityOperator = "freehold-operator"

// LeaseName is the Lease of the operator's leader election. It is a lock and not part of the contract: no manager has
// a grant on it.
const LeaseName = "freehold-operator"

// Controllers are the identities that the operator's process writes as.
func Controllers() []string {
	all := []string{IdentityMCPServer, IdentityMCPRemoteProxy, IdentityRBAC}
	for _, c := range Configs() {
		all = append(all, c.Identity)
	}
	return all
}

// processRights are those of the operator's process, which reads for all its controllers.
func processRights() []ownership.Right {
	right := func(object ownership.Object, why string, verbs ...string) ownership.Right {
		return ownership.Right{
			Identity: IdentityOperator, Group: object.Group, Resource: object.Resource(), Verbs: verbs,
			Why: why,
		}
	}
	var all []ownership.Right
	for _, object := range slices.Concat(Kinds(), []ownership.Object{
		Deployment, StatefulSet, Service, ConfigMap, ServiceAccount, Role, RoleBinding, NetworkPolicy, HTTPRoute,
	}) {
		all = append(all, right(object, "watches it, and reads it where a cache may be behind", "get", "list", "watch"))
	}
	// It reads nothing but their metadata.
	all = append(all, right(ControllerRevision, "watches it", "list", "watch"))
	lease := object("coordination.k8s.io", "v1", "Lease", "")
	leads := right(lease, "elects one operator", "get", "update")
	leads.Names = []string{LeaseName}
	acts := right(ServiceAccount, "writes as its controllers", "impersonate")
	acts.Names = Controllers()
	return append(all,
		right(object("", "v1", "Pod", ""), "tells why a server is not ready", "list", "watch"),
		right(object("", "v1", "Event", ""), "tells why a server is not ready", "list", "watch"),
		right(object("events.k8s.io", "v1", "Event", ""), "reports what happened to a server", "create", "patch"),
		leads, right(lease, "makes that Lease; RBAC cannot bind a create to a name", "create"),
		acts)
}
