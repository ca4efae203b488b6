// Package chart judges what the chart installs. rbac_test.go and
// security_test.go read the golden renderings, and need no Helm; render_test.go
// makes and compares those with the pinned Helm, under the build tag helm.
package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// documents are the objects of a rendering.
func documents(t *testing.T, text string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object != nil {
			found = append(found, object)
		}
	}
	if len(found) == 0 {
		t.Fatal("nothing was rendered: the test would pass without looking")
	}
	return found
}

func metadata(object map[string]any) map[string]any { return object["metadata"].(map[string]any) }

// rendered reads one object of a golden rendering into a type.
func rendered(t *testing.T, golden, kind, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + golden + ".golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range documents(t, string(text)) {
		if object["kind"] == kind && metadata(object)["name"] == name {
			data, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(data, into); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s has no %s %s", golden, kind, name)
}

// uncovered are the rights in want that no rule of have gives.
func uncovered(have, want []rbacv1.PolicyRule) []string {
	var missing []string
	for _, rule := range want {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if !slices.ContainsFunc(have, func(r rbacv1.PolicyRule) bool { return gives(r, group, resource, verb) }) {
						missing = append(missing, fmt.Sprintf("%s %s.%s", verb, resource, group))
					}
				}
			}
		}
	}
	return missing
}

// gives leaves wildcards out on purpose: the operator's role has none.
func gives(rule rbacv1.PolicyRule, group, resource, verb string) bool {
	return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) &&
		slices.Contains(rule.Verbs, verb) && len(rule.ResourceNames) == 0
}

// excess are the rights that an operator of ours must not have.
func excess(rules []rbacv1.PolicyRule) []string {
	var found []string
	for _, rule := range rules {
		for _, part := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs) {
			if slices.Contains([]string{"*", "secrets", "pods/exec", "escalate", "bind", "impersonate", "deletecollection"}, part) {
				found = append(found, part)
			}
		}
		if slices.Contains(rule.Verbs, "update") && !slices.Equal(rule.Resources, []string{"mcpservers/finalizers"}) {
			found = append(found, fmt.Sprintf("update %v", rule.Resources))
		}
	}
	return found
}

// TestOperatorMayGrantTheRunnersRole holds what the API server asks of whoever
// makes a Role: to have every right in it.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-creation-or-update
func TestOperatorMayGrantTheRunnersRole(t *testing.T) {
	var operator rbacv1.ClusterRole
	rendered(t, "default", "ClusterRole", "freehold-operator", &operator)
	runner := runnerRules(t)
	if missing := uncovered(operator.Rules, runner); len(missing) > 0 {
		t.Errorf("the operator may not make the runner's Role: add to config/chart/templates/rbac.yaml %s", strings.Join(missing, ", "))
	}

	without := slices.DeleteFunc(slices.Clone(operator.Rules), func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "statefulsets")
	})
	if !slices.Contains(uncovered(without, runner), "create statefulsets.apps") {
		t.Error("a right that is missing is not seen")
	}
}

func runnerRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "team", UID: "1"}}
	data, err := json.Marshal(workload.Role(server))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.Role
	if err := json.Unmarshal(data, &role); err != nil {
		t.Fatal(err)
	}
	if len(role.Rules) == 0 {
		t.Fatal("the runner's Role has no rules: the test would pass without looking")
	}
	return role.Rules
}

func TestOperatorHasNoMoreThanItNeeds(t *testing.T) {
	for _, golden := range []string{"default", "everything"} {
		var operator rbacv1.ClusterRole
		rendered(t, golden, "ClusterRole", "freehold-operator", &operator)
		if found := excess(operator.Rules); len(found) > 0 {
			t.Errorf("%s: the operator's role must not hold %v", golden, found)
		}
	}
	bad := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		{APIGroups: []string{"*"}, Resources: []string{"pods"}, Verbs: []string{"update"}},
	}
	if found := excess(bad); len(found) != 3 {
		t.Errorf("of a Secret, a wildcard and an update only %v is seen", found)
	}
}

// TestOperatorDeletesWhatTheContractSays holds that the operator may delete the
// kinds that the contract lets it remove, and those that it becomes the owner
// of, because some clusters ask for that right of whoever sets an owner.
func TestOperatorDeletesWhatTheContractSays(t *testing.T) {
	var operator rbacv1.ClusterRole
	rendered(t, "default", "ClusterRole", "freehold-operator", &operator)
	var may, says []string
	for _, rule := range operator.Rules {
		if slices.Contains(rule.Verbs, "delete") {
			may = append(may, rule.Resources...)
		}
	}
	for _, removal := range ownership.Freehold().Removals {
		says = append(says, strings.ToLower(removal.Object.Kind)+"s")
	}
	for _, grant := range ownership.Freehold().Of(ownership.MCPServerChildren) {
		says = append(says, strings.ToLower(grant.Object.Kind)+"s")
	}
	slices.Sort(may)
	slices.Sort(says)
	says = slices.Compact(says)
	if !slices.Equal(may, says) {
		t.Errorf("the operator's role lets it delete %v, the contract says %v", may, says)
	}
}

// TestOperatorNamesItsLease holds that create cannot make another lease.
func TestOperatorNamesItsLease(t *testing.T) {
	var role rbacv1.Role
	rendered(t, "default", "Role", "freehold-operator-lease", &role)
	for _, rule := range role.Rules {
		if len(rule.ResourceNames) == 0 {
			t.Errorf("a rule of the lease's Role names no lease: %v", rule)
		}
	}
	if role.Namespace != "freehold-system" {
		t.Errorf("the lease's Role is in namespace %q", role.Namespace)
	}
}

// TestNamespacesNarrowTheOperator holds that a list of namespaces leaves no
// right in any other.
func TestNamespacesNarrowTheOperator(t *testing.T) {
	text, err := os.ReadFile("testdata/everything.golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]bool{}
	for _, object := range documents(t, string(text)) {
		switch object["kind"] {
		case "ClusterRoleBinding":
			t.Errorf("%v binds in every namespace", metadata(object)["name"])
		case "RoleBinding":
			bound[metadata(object)["namespace"].(string)] = true
		}
	}
	if want := []string{"freehold-system", "team-a", "team-b"}; !slices.Equal(sortedKeys(bound), want) {
		t.Errorf("the operator is bound in %v, want %v", sortedKeys(bound), want)
	}
}
