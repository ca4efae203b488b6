package contract

import "github.com/freehold-dev/freehold/apis/ownership"

// RBACChildren gives the runners of MCPServers their rights, RBACRemote those of MCPRemoteProxies; they write nothing
// else.
const (
	RBACChildren ownership.Manager = "rbac.freehold.dev/children"
	RBACRemote   ownership.Manager = "rbac.freehold.dev/remote"
)

// IdentityRBAC creates Roles. It alone has the rights of runners, because the API server lets nobody grant what they
// do not have.
const IdentityRBAC = "freehold-rbac"

func rbacRemovals() []ownership.Removal {
	return []ownership.Removal{
		{
			Identity: IdentityRBAC, Object: RoleBinding,
			Why: "what binds an account, or to a role, that is not the runner's any more",
		},
	}
}
