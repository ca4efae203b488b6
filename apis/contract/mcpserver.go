package contract

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The managers of the MCPServer controller.
const (
	// MCPServerFinalizer holds our finalizer, and nothing else, so that
	// releasing it is an apply of nothing.
	MCPServerFinalizer ownership.Manager = "mcpserver.freehold.dev/finalizer"
	// MCPServerWorkload claims workload generations.
	MCPServerWorkload ownership.Manager = "mcpserver.freehold.dev/workload"
	// MCPServerConditions states conditions and the generation they speak of.
	MCPServerConditions ownership.Manager = "mcpserver.freehold.dev/conditions"
	// MCPServerAddress states what else was observed.
	MCPServerAddress ownership.Manager = "mcpserver.freehold.dev/status"
	// MCPServerChildren builds the objects around the proxy, but for the runner's
	// rights.
	MCPServerChildren ownership.Manager = "mcpserver.freehold.dev/children"
	// MCPServerScale carries spec.replicas to the backend StatefulSet.
	MCPServerScale ownership.Manager = "mcpserver.freehold.dev/scale"
)

// IdentityMCPServer is the MCPServer controller.
const IdentityMCPServer = "freehold-mcpserver"

// Finalizer is the finalizer that the MCPServer controller holds while a
// server's proxy and backend still run.
const Finalizer = "freehold.dev/mcpserver"

// mcpServer are the grants of the MCPServer controller on its own kind.
func mcpServer() []ownership.Grant {
	own := func(manager ownership.Manager, object ownership.Object, why string, paths ...string) ownership.Grant {
		return ownership.Grant{
			Manager: manager, Identity: IdentityMCPServer, Object: object,
			Mode: ownership.Exclusive, Why: why, Fields: ownership.Paths(paths...),
		}
	}
	claim := own(MCPServerWorkload, MCPServerSub, "claims the workload generation", "status.workload")
	claim.Versioned = true
	return []ownership.Grant{
		own(MCPServerFinalizer, MCPServer, "holds the server until its calls have ended and its backend is deleted",
			`metadata.finalizers[="`+Finalizer+`"]`),
		claim,
		own(MCPServerConditions, MCPServerSub, "reports the state, and of which generation",
			"status.observedGeneration",
			"status.conditions[type=Ready]",
			"status.conditions[type=Suspended]",
			"status.conditions[type=Reconciling]",
			"status.conditions[type=Stalled]",
			"status.conditions[type=Accepted]",
			"status.conditions[type=ForeignPodContent]",
			"status.conditions[type=FieldConflict]",
			"status.conditions[type=FinalizerMissing]",
			"status.conditions[type=BackendExposed]",
			"status.conditions[type=PolicyUnmatched]"),
		own(MCPServerAddress, MCPServerSub, "reports address and scale",
			"status.url", "status.replicas", "status.readyReplicas", "status.selector"),
	}
}

// children are the grants of the MCPServer controller on what it builds.
func children() []ownership.Grant {
	build := func(object ownership.Object, name, why string, own ...string) ownership.Grant {
		return child(IdentityMCPServer, MCPServerChildren, object, name, why, own...)
	}
	proxy := build(Deployment, "SERVER-proxy", "runs the proxy", slices.Concat([]string{
		"spec.replicas", "spec.revisionHistoryLimit", "spec.selector", "spec.strategy", "spec.template",
	}, revision)...)
	proxy.Versioned, proxy.Baseline = true, true
	session := build(Secret, "SERVER-session", "has the key of session ids", "data")
	session.Once, session.Mode = true, ownership.Shared // people change the keys
	return []ownership.Grant{
		build(ServiceAccount, "SERVER-runner", "is the runner's identity", "automountServiceAccountToken"),
		session,
		build(ConfigMap, "SERVER-run-*-*", "tells the runner what to run", "data", "immutable", revision[0], revision[1]),
		build(NetworkPolicy, "SERVER-backend", "lets only the proxy connect to the backend",
			"spec.podSelector", "spec.policyTypes", "spec.ingress"),
		proxy,
		build(Service, "SERVER-proxy", "is where clients call",
			"spec.ports", "spec.selector", "spec.type", "metadata.labels[*]", "metadata.annotations[*]"),
		{
			Manager: MCPServerScale, Identity: IdentityMCPServer, Object: StatefulSet, Names: []string{"SERVER-backend"},
			Mode: ownership.Exclusive, Why: "carries the server's replicas to the backend", Fields: ownership.Paths("spec.replicas"),
		},
	}
}

// mcpServerRemovals are what the MCPServer controller may delete.
func mcpServerRemovals() []ownership.Removal {
	return []ownership.Removal{
		{Identity: IdentityMCPServer, Object: ConfigMap, Why: "a run config that no pod can mount any more"},
		{Identity: IdentityMCPServer, Object: NetworkPolicy, Why: "that of a server whose backend others may reach again"},
		{Identity: IdentityMCPServer, Object: StatefulSet, Why: "the backend of a server that is being deleted"},
	}
}
