package contract

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The managers of the MCPServer controller.
const (
	// MCPServerFinalizer owns only our finalizer, so that an empty apply releases it.
	MCPServerFinalizer ownership.Manager = "mcpserver.freehold.dev/finalizer"
	// MCPServerWorkload claims workload generations.
	MCPServerWorkload ownership.Manager = "mcpserver.freehold.dev/workload"
	// MCPServerPlan says which backend gets the calls, and how far a rollout is.
	MCPServerPlan ownership.Manager = "rollout.freehold.dev/plan"
	// MCPServerConditions states conditions and their generation.
	MCPServerConditions ownership.Manager = "mcpserver.freehold.dev/conditions"
	// MCPServerAddress states what else was observed.
	MCPServerAddress ownership.Manager = "mcpserver.freehold.dev/status"
	// MCPServerChildren builds the objects around the proxy, except the runner's rights.
	MCPServerChildren ownership.Manager = "mcpserver.freehold.dev/children"
	// MCPServerScale carries spec.replicas to the backend StatefulSet.
	MCPServerScale ownership.Manager = "mcpserver.freehold.dev/scale"
)

// IdentityMCPServer is the MCPServer controller.
const IdentityMCPServer = "freehold-mcpserver"

// Finalizer holds a server while its proxy and backend still run.
const Finalizer = "freehold.dev/mcpserver"

// MCPServers is the kind MCPServer.
func MCPServers() Workload {
	return Workload{
		Object: MCPServer, Identity: IdentityMCPServer, Finalizer: Finalizer, Backend: true,
		FinalizerManager: MCPServerFinalizer, WorkloadManager: MCPServerWorkload, PlanManager: MCPServerPlan,
		ConditionsManager: MCPServerConditions, StatusManager: MCPServerAddress, ChildrenManager: MCPServerChildren,
		RightsManager: RBACChildren, ReportManager: RunnerReport,
		Conditions: slices.Concat(workloadConditions, []string{"Available", "BackendExposed", "PolicyUnmatched"}),
		word:       "SERVER", holds: "holds the server until its calls have ended and its backend is deleted",
		status: "reports address and scale",
		statusFields: []string{
			"status.url", "status.publicURL", "status.replicas", "status.readyReplicas", "status.selector",
		},
	}
}

func backendGrants(w Workload) (policy, content, scale ownership.Grant) {
	policy = w.child(w.Identity, w.ChildrenManager, NetworkPolicy, w.word+"-backend",
		"says who connects to the backend, and what it may connect to",
		"spec.podSelector", "spec.policyTypes", "spec.ingress", "spec.egress")
	content = w.child(w.Identity, w.ChildrenManager, ControllerRevision, w.word+"-content-*",
		"keeps content of the backend, so that it can be made again", append([]string{"data", "revision"}, revision...)...)
	content.Once = true // its data is immutable, and has what later pods run
	return policy, content, ownership.Grant{
		Manager: MCPServerScale, Identity: w.Identity, Object: StatefulSet, Names: backendSets(),
		Mode: ownership.Exclusive, Why: "carries the server's replicas to the backend",
		Fields: ownership.Paths("spec.replicas"),
	}
}

func mcpServerRemovals() []ownership.Removal {
	return []ownership.Removal{
		{Identity: IdentityMCPServer, Object: ConfigMap, Why: "a run config that no pod can mount any more"},
		{Identity: IdentityMCPServer, Object: HTTPRoute, Why: "that of a server whose spec asks for none any more"},
		{
			Identity: IdentityMCPServer, Object: NetworkPolicy,
			Why: "that of a server whose backend anyone may reach again, or that is being deleted",
		},
		{
			Identity: IdentityMCPServer, Object: ControllerRevision,
			Why: "content of a backend that is none of the last three, or has come back under a new number",
		},
		{
			Identity: IdentityMCPServer, Object: StatefulSet,
			Why: "the backend of a server that is being deleted, or one in a slot that nothing uses any more",
		},
		{Identity: IdentityMCPServer, Object: Service, Why: "that of a backend in a slot that nothing uses any more"},
	}
}
