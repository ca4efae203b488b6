package workload

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// ServiceAccount is the identity of an owner's runner. Its token is mounted only in the container that asks for it.
func ServiceAccount(owner Owner) *corev1ac.ServiceAccountApplyConfiguration {
	return child(corev1ac.ServiceAccount(RunnerName(owner.Key()), owner.Namespace), owner, ComponentRunner).
		WithAutomountServiceAccountToken(false)
}

// Role allows a runner to read its owner, report to its status, and apply the three objects of a backend in each slot.
// Every rule names its objects, also for create, which works because an apply has the object's name in its URL where a
// POST does not. list and watch need the field selector metadata.name
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources).
//
// kept are contents that the runner may have to make again, of which it may read what history has.
func Role(owner Owner, kept ...v1alpha1.BackendContent) *rbacv1ac.RoleApplyConfiguration {
	role := child(rbacv1ac.Role(RunnerName(owner.Key()), owner.Namespace), owner, ComponentRunner)
	if owner.Backend {
		// The runner deletes nothing, but some clusters require the right to delete an object for changing its owner
		// references:
		// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#ownerreferencespermissionenforcement
		var sets, services []string
		for _, slot := range Slots {
			sets = append(sets, slot.Name(owner.Key()))
			services = append(services, slot.Name(owner.Key()), slot.HeadlessName(owner.Key()))
		}
		role.WithRules(
			rule("apps", "statefulsets", sets...).
				WithVerbs("get", "list", "watch", "patch", "create", "delete"),
			rule("", "services", services...).
				WithVerbs("get", "list", "watch", "patch", "create", "delete"))
		if len(kept) > 0 {
			var contents []string
			for _, content := range kept {
				contents = append(contents, ContentName(owner.Key(), content.Hash))
			}
			role.WithRules(rule("apps", "controllerrevisions", slices.Sorted(slices.Values(contents))...).WithVerbs("get"))
		}
	}
	role.WithRules(
		rule(v1alpha1.SchemeGroupVersion.Group, owner.Resource, owner.Name).
			WithVerbs("get", "list", "watch"),
		rule(v1alpha1.SchemeGroupVersion.Group, owner.Resource+"/status", owner.Name).
			WithVerbs("patch"))
	if owner.Backend {
		// Some clusters require it for setting blockOwnerDeletion, see above.
		role.WithRules(rule(v1alpha1.SchemeGroupVersion.Group, owner.Resource+"/finalizers", owner.Name).
			WithVerbs("update"))
	}
	return role
}

func rule(group, resource string, names ...string) *rbacv1ac.PolicyRuleApplyConfiguration {
	return rbacv1ac.PolicyRule().
		WithAPIGroups(group).
		WithResources(resource).
		WithResourceNames(names...)
}

// RoleBinding gives the runner its role.
func RoleBinding(owner Owner) *rbacv1ac.RoleBindingApplyConfiguration {
	name := RunnerName(owner.Key())
	return child(rbacv1ac.RoleBinding(name, owner.Namespace), owner, ComponentRunner).
		WithRoleRef(rbacv1ac.RoleRef().
			WithAPIGroup(rbacv1.GroupName).
			WithKind("Role").
			WithName(name)).
		WithSubjects(rbacv1ac.Subject().
			WithKind(rbacv1.ServiceAccountKind).
			WithName(name).
			WithNamespace(owner.Namespace))
}
