package contract

import "github.com/freehold-dev/freehold/apis/ownership"

// RBACChildren gives runners their rights, and writes nothing else.
const RBACChildren ownership.Manager = "rbac.freehold.dev/children"

// IdentityRBAC makes Roles. It alone has the rights of runners, because the
// API server lets nobody grant what they do not have.
const IdentityRBAC = "freehold-rbac"

func rbacGrants() []ownership.Grant {
	return []ownership.Grant{
		child(IdentityRBAC, RBACChildren, Role, "SERVER-runner", "holds what the runner may do", "rules"),
		child(IdentityRBAC, RBACChildren, RoleBinding, "SERVER-runner", "gives the runner its role", "roleRef", "subjects"),
	}
}

func rbacRemovals() []ownership.Removal {
	return []ownership.Removal{
		{Identity: IdentityRBAC, Object: RoleBinding, Why: "what binds an account, or to a role, that is not the runner's any more"},
	}
}
