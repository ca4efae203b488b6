package contract

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Freehold is the contract of this operator.
func Freehold() ownership.Contract {
	return ownership.Contract{
		Grants: slices.Concat(workloadGrants(MCPServers(), runner()), workloadGrants(MCPRemoteProxies(), nil),
			configGrants()),
		Removals: slices.Concat(mcpServerRemovals(), mcpRemoteProxyRemovals(), rbacRemovals()),
		Rights:   slices.Concat(processRights(), runnerRights()),
		Takeover: &ownership.Takeover{Annotation: AdoptAnnotation},
	}
}

// workloadGrants are those of a kind with a proxy; backend are its runner's besides the report.
func workloadGrants(w Workload, backend []ownership.Grant) []ownership.Grant {
	return slices.Concat(w.grants(), w.children(), w.rights(), backend, []ownership.Grant{w.report()})
}

// AdoptAnnotation with the value "true" hands a child of another owner over to the server whose child's name it has.
const AdoptAnnotation = "freehold.dev/adopt"

func object(group, version, kind, subresource string) ownership.Object {
	return ownership.Object{
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind},
		Subresource:      subresource,
	}
}

// The objects of the contract.
var (
	MCPServer      = object("freehold.dev", "v1alpha1", "MCPServer", "")
	MCPServerSub   = object("freehold.dev", "v1alpha1", "MCPServer", "status")
	MCPRemoteProxy = object("freehold.dev", "v1alpha1", "MCPRemoteProxy", "")
	Deployment     = object("apps", "v1", "Deployment", "")
	StatefulSet    = object("apps", "v1", "StatefulSet", "")
	// ControllerRevision keeps content of a backend.
	ControllerRevision = object("apps", "v1", "ControllerRevision", "")
	Service            = object("", "v1", "Service", "")
	ConfigMap          = object("", "v1", "ConfigMap", "")
	ServiceAccount     = object("", "v1", "ServiceAccount", "")
	Secret             = object("", "v1", "Secret", "")
	NetworkPolicy      = object("networking.k8s.io", "v1", "NetworkPolicy", "")
	// HTTPRoute is of the Gateway API, which a cluster may lack.
	HTTPRoute   = object("gateway.networking.k8s.io", "v1", "HTTPRoute", "")
	Role        = object("rbac.authorization.k8s.io", "v1", "Role", "")
	RoleBinding = object("rbac.authorization.k8s.io", "v1", "RoleBinding", "")
)

// Kinds are those of Freehold itself: the kinds with a proxy, then the shared configurations.
func Kinds() (all []ownership.Object) {
	for _, w := range Workloads() {
		all = append(all, w.Object)
	}
	for _, c := range Configs() {
		all = append(all, c.Object)
	}
	return all
}

// identity is common to all children of a server: our labels, by which the caches find it, its owner, with which it
// is collected, and the release's metadata.
var identity = []string{
	`metadata.labels["app.kubernetes.io/managed-by"]`,
	`metadata.labels["app.kubernetes.io/name"]`,
	`metadata.labels["app.kubernetes.io/component"]`,
	`metadata.labels["freehold.dev/server"]`,
	`metadata.ownerReferences[*]`,
	`metadata.labels[*]`,
	`metadata.annotations[*]`,
}

var revision = []string{
	`metadata.annotations["freehold.dev/workload-generation"]`,
	`metadata.annotations["freehold.dev/workload-hash"]`,
}
