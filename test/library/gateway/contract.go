package gateway

import (
	"strings"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

var kind = v1alpha1.SchemeGroupVersion.WithKind("Gateway")

// Identity is the controller of gateways.
const Identity = "freehold-gateway"

// The managers of its controller, and of the runner in a gateway's proxy.
const (
	Children   ownership.Manager = "gateway.freehold.dev/children"
	Rights     ownership.Manager = "gateway.freehold.dev/rights"
	Workload   ownership.Manager = "gateway.freehold.dev/workload"
	Conditions ownership.Manager = "gateway.freehold.dev/conditions"
	Report     ownership.Manager = "runner.freehold.dev/gateway"
)

// Contract is Freehold's, with rows for gateways that are like those for servers.
func Contract() ownership.Contract {
	c := contract.Freehold()
	managers := map[ownership.Manager]ownership.Manager{
		contract.MCPServerChildren: Children, contract.RBACChildren: Rights,
		contract.MCPServerWorkload: Workload, contract.MCPServerConditions: Conditions, contract.RunnerReport: Report,
	}
	rename := strings.NewReplacer(
		"SERVER-proxy", "GATEWAY-proxy-gw", "SERVER-run", "GATEWAY.gw-run", "SERVER", "GATEWAY", contract.IdentityMCPServer, Identity)
	names := func(of []string) (renamed []string) {
		for _, name := range of {
			renamed = append(renamed, rename.Replace(name))
		}
		return renamed
	}
	of := func(o ownership.Object) ownership.Object {
		if o.Kind == contract.MCPServer.Kind {
			o.GroupVersionKind = kind
		}
		return o
	}
	for _, g := range c.Grants {
		if manager, like := managers[g.Manager]; like && g.Object != contract.NetworkPolicy { // it has no backend to close
			g.Manager, g.Identity, g.Names, g.Object, g.Owner = manager, rename.Replace(g.Identity), names(g.Names), of(g.Object), of(g.Owner)
			c.Grants = append(c.Grants, g)
		}
	}
	for i, r := range c.Rights {
		switch {
		case r.Resource == contract.MCPServer.Resource():
			r.Resource, r.Identity, r.Names = of(contract.MCPServer).Resource(), rename.Replace(r.Identity), names(r.Names)
			c.Rights = append(c.Rights, r)
		case r.Verbs[0] == "impersonate":
			c.Rights[i].Names = append(r.Names, Identity)
		}
	}
	return c
}
