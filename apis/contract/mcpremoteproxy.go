package contract

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The managers of the MCPRemoteProxy controller, for the purposes of those of the MCPServer controller.
const (
	MCPRemoteProxyFinalizer  ownership.Manager = "mcpremoteproxy.freehold.dev/finalizer"
	MCPRemoteProxyWorkload   ownership.Manager = "mcpremoteproxy.freehold.dev/workload"
	MCPRemoteProxyConditions ownership.Manager = "mcpremoteproxy.freehold.dev/conditions"
	MCPRemoteProxyAddress    ownership.Manager = "mcpremoteproxy.freehold.dev/status"
	MCPRemoteProxyChildren   ownership.Manager = "mcpremoteproxy.freehold.dev/children"
)

// IdentityMCPRemoteProxy is the MCPRemoteProxy controller.
const IdentityMCPRemoteProxy = "freehold-mcpremoteproxy"

// MCPRemoteProxies is the kind MCPRemoteProxy.
func MCPRemoteProxies() Workload {
	return Workload{
		Object: MCPRemoteProxy, Identity: IdentityMCPRemoteProxy, Finalizer: "freehold.dev/mcpremoteproxy", Suffix: "remote",
		FinalizerManager: MCPRemoteProxyFinalizer, WorkloadManager: MCPRemoteProxyWorkload,
		ConditionsManager: MCPRemoteProxyConditions, StatusManager: MCPRemoteProxyAddress,
		ChildrenManager: MCPRemoteProxyChildren, RightsManager: RBACRemote, ReportManager: RunnerRemoteReport,
		Conditions: slices.Concat(workloadConditions, []string{"PolicyUnmatched"}),
		word:       "REMOTE", holds: "holds the object until its calls have ended",
		status: "reports the address", statusFields: []string{"status.url", "status.publicURL"},
	}
}

func mcpRemoteProxyRemovals() []ownership.Removal {
	return []ownership.Removal{
		{Identity: IdentityMCPRemoteProxy, Object: ConfigMap, Why: "a run config that no pod can mount any more"},
		{Identity: IdentityMCPRemoteProxy, Object: HTTPRoute, Why: "that of a proxy whose spec asks for none any more"},
	}
}
