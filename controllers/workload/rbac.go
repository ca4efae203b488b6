package workload

import (
	rbacv1 "k8s.io/api/rbac/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// ServiceAccount is the identity of a server's runner. Its token is mounted
// only where a pod asks for it, as the proxy's does for one container.
func ServiceAccount(server *v1alpha1.MCPServer) *corev1ac.ServiceAccountApplyConfiguration {
	id := runspec.Server(server)
	return corev1ac.ServiceAccount(RunnerName(id.Name), id.Namespace).
		WithLabels(Labels(id.Name, ComponentRunner)).
		WithOwnerReferences(owner(id)).
		WithAutomountServiceAccountToken(false)
}

// Role is what a server's runner may do: apply the three objects of its
// backend, read its server, report to its status. Every rule names its objects,
// also for create, which works because an apply names its object in the URL
// where a POST does not. list and watch need the field selector metadata.name
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources).
func Role(server *v1alpha1.MCPServer) *rbacv1ac.RoleApplyConfiguration {
	id := runspec.Server(server)
	return rbacv1ac.Role(RunnerName(id.Name), id.Namespace).
		WithLabels(Labels(id.Name, ComponentRunner)).
		WithOwnerReferences(owner(id)).
		WithRules(
			// It deletes nothing. But some clusters ask for the right to of whoever
			// becomes the owner of what another hand made:
			// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#ownerreferencespermissionenforcement
			rule("apps", "statefulsets", BackendName(id.Name)).
				WithVerbs("get", "list", "watch", "patch", "create", "delete"),
			rule("", "services", BackendName(id.Name), HeadlessName(id.Name)).
				WithVerbs("get", "list", "watch", "patch", "create", "delete"),
			rule(v1alpha1.SchemeGroupVersion.Group, "mcpservers", id.Name).
				WithVerbs("get", "list", "watch"),
			rule(v1alpha1.SchemeGroupVersion.Group, "mcpservers/status", id.Name).
				WithVerbs("patch"),
			// Some clusters ask for this of whoever states blockOwnerDeletion:
			// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#ownerreferencespermissionenforcement
			rule(v1alpha1.SchemeGroupVersion.Group, "mcpservers/finalizers", id.Name).
				WithVerbs("update"),
		)
}

func rule(group, resource string, names ...string) *rbacv1ac.PolicyRuleApplyConfiguration {
	return rbacv1ac.PolicyRule().
		WithAPIGroups(group).
		WithResources(resource).
		WithResourceNames(names...)
}

// RoleBinding gives the runner its role.
func RoleBinding(server *v1alpha1.MCPServer) *rbacv1ac.RoleBindingApplyConfiguration {
	id := runspec.Server(server)
	return rbacv1ac.RoleBinding(RunnerName(id.Name), id.Namespace).
		WithLabels(Labels(id.Name, ComponentRunner)).
		WithOwnerReferences(owner(id)).
		WithRoleRef(rbacv1ac.RoleRef().
			WithAPIGroup(rbacv1.GroupName).
			WithKind("Role").
			WithName(RunnerName(id.Name))).
		WithSubjects(rbacv1ac.Subject().
			WithKind(rbacv1.ServiceAccountKind).
			WithName(RunnerName(id.Name)).
			WithNamespace(id.Namespace))
}
