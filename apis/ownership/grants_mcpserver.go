package ownership

import "k8s.io/apimachinery/pkg/runtime/schema"

func object(group, version, kind, subresource string) Object {
	return Object{
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind},
		Subresource:      subresource,
	}
}

// The objects of the contract.
var (
	MCPServer      = object("freehold.dev", "v1alpha1", "MCPServer", "")
	MCPServerSub   = object("freehold.dev", "v1alpha1", "MCPServer", "status")
	Deployment     = object("apps", "v1", "Deployment", "")
	StatefulSet    = object("apps", "v1", "StatefulSet", "")
	Service        = object("", "v1", "Service", "")
	ConfigMap      = object("", "v1", "ConfigMap", "")
	ServiceAccount = object("", "v1", "ServiceAccount", "")
	Role           = object("rbac.authorization.k8s.io", "v1", "Role", "")
	RoleBinding    = object("rbac.authorization.k8s.io", "v1", "RoleBinding", "")
)

// identity is what every child of a server carries: our labels, so that the
// caches find it, and its owner, so that it is collected with the server.
var identity = []string{
	`metadata.labels["app.kubernetes.io/managed-by"]`,
	`metadata.labels["app.kubernetes.io/name"]`,
	`metadata.labels["app.kubernetes.io/component"]`,
	`metadata.labels["freehold.dev/server"]`,
	`metadata.ownerReferences[*]`,
}

// mark is the workload generation and hash that content carries.
var mark = []string{
	`metadata.annotations["freehold.dev/workload-generation"]`,
	`metadata.annotations["freehold.dev/workload-hash"]`,
}

func fields(groups ...[]string) []Path {
	var paths []Path
	for _, group := range groups {
		paths = append(paths, Paths(group...)...)
	}
	return paths
}

// mcpServer are the grants of the MCPServer controller on its own kind.
func mcpServer() []Grant {
	own := func(manager Manager, object Object, why string, paths ...string) Grant {
		return Grant{Manager: manager, Identity: IdentityMCPServer, Object: object, Mode: Exclusive, Why: why, Fields: Paths(paths...)}
	}
	claim := own(MCPServerWorkload, MCPServerSub, "claims the workload generation", "status.workload")
	claim.Versioned = true
	return []Grant{
		own(MCPServerFinalizer, MCPServer, "holds the server until its calls have ended and its backend is deleted",
			`metadata.finalizers[="`+Finalizer+`"]`),
		claim,
		own(MCPServerConditions, MCPServerSub, "says what is so and for which generation",
			"status.observedGeneration",
			"status.conditions[type=Ready]",
			"status.conditions[type=Suspended]",
			"status.conditions[type=Reconciling]",
			"status.conditions[type=Stalled]",
			"status.conditions[type=Accepted]",
			"status.conditions[type=ForeignPodContent]",
			"status.conditions[type=FieldsContended]",
			"status.conditions[type=FinalizerMissing]"),
		own(MCPServerStatus, MCPServerSub, "reports address and scale",
			"status.url", "status.replicas", "status.readyReplicas", "status.selector"),
	}
}

// children are the grants of the MCPServer controller on what it builds.
func children() []Grant {
	child := func(object Object, name, why string, own ...string) Grant {
		return Grant{
			Manager: MCPServerChildren, Identity: IdentityMCPServer, Object: object, Names: []string{name},
			Mode: Exclusive, Create: true, Why: why, Fields: fields(identity, own),
		}
	}
	proxy := child(Deployment, "SERVER-proxy", "runs the proxy",
		"spec.replicas", "spec.revisionHistoryLimit", "spec.selector", "spec.strategy", "spec.template")
	proxy.Fields = append(proxy.Fields, fields(mark)...)
	proxy.Versioned, proxy.Baseline = true, true
	granting := func(g Grant) Grant {
		g.Manager, g.Identity = RBACChildren, IdentityRBAC
		return g
	}
	return []Grant{
		child(ServiceAccount, "SERVER-runner", "is the runner's identity", "automountServiceAccountToken"),
		granting(child(Role, "SERVER-runner", "holds what the runner may do", "rules")),
		granting(child(RoleBinding, "SERVER-runner", "gives the runner its role", "roleRef", "subjects")),
		child(ConfigMap, "SERVER-run-*-*", "tells the runner what to run", "data", "immutable", mark[0], mark[1]),
		proxy,
		child(Service, "SERVER-proxy", "is where clients call",
			"spec.ports", "spec.selector", "spec.type", "metadata.labels[*]", "metadata.annotations[*]"),
		{
			Manager: MCPServerScale, Identity: IdentityMCPServer, Object: StatefulSet, Names: []string{"SERVER-backend"},
			Mode: Exclusive, Why: "carries the server's replicas to the backend", Fields: Paths("spec.replicas"),
		},
	}
}

// removals are what the MCPServer controller may delete, and who gives rights.
func removals() []Removal {
	return []Removal{
		{Identity: IdentityMCPServer, Object: ConfigMap, Why: "a run config that no pod can mount any more"},
		{Identity: IdentityMCPServer, Object: StatefulSet, Why: "the backend of a server that is being deleted"},
		{Identity: IdentityRBAC, Object: RoleBinding, Why: "what binds an account, or to a role, that is not the runner's any more"},
	}
}
