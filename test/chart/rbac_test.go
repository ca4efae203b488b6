// Package chart judges what the chart installs. rbac_test.go and security_test.go read the golden renderings, and need
// no Helm; render_test.go makes and compares those with the pinned Helm, under the build tag helm.
package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership/rbac"
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

// roles are what the chart gives to each identity: what is bound in the watched namespaces, and what in its own.
func roles(t *testing.T, golden, identity string) (anywhere, own []rbacv1.PolicyRule) {
	t.Helper()
	var role rbacv1.ClusterRole
	rendered(t, golden, "ClusterRole", identity, &role)
	if identity != contract.IdentityOperator {
		return role.Rules, nil
	}
	var here rbacv1.Role
	rendered(t, golden, "Role", identity+"-own", &here)
	if here.Namespace != "freehold-system" {
		t.Errorf("%s: the Role of what is %s's own is in namespace %q", golden, identity, here.Namespace)
	}
	return role.Rules, here.Rules
}

// identities are those that the chart knows.
func identities() []string { return append(contract.Controllers(), contract.IdentityOperator) }

// TestRolesAreThoseOfTheContract holds that the chart gives each identity what
// its rows of the contract need, and nothing else.
func TestRolesAreThoseOfTheContract(t *testing.T) {
	for _, golden := range []string{"default", "everything"} {
		for _, identity := range identities() {
			anywhere, own := roles(t, golden, identity)
			got := append(slices.Clone(anywhere), own...)
			want := rbac.Rules(contract.Freehold(), identity, "")
			if golden == "everything" { // with rbac.httpRoutes=false
				want = slices.DeleteFunc(want, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "httproutes") })
			}
			for _, rules := range [][]rbacv1.PolicyRule{got, want} {
				slices.SortFunc(rules, func(a, b rbacv1.PolicyRule) int { return strings.Compare(a.String(), b.String()) })
			}
			if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
				t.Errorf("%s: %s has other rules than the contract says; run make generate and make golden (-contract +chart):\n%s",
					golden, identity, diff)
			}
			for _, rule := range anywhere {
				if len(rule.ResourceNames) > 0 {
					t.Errorf("%s: %s has a rule in every namespace for what is in one: %v", golden, identity, rule)
				}
			}
			for _, rule := range own {
				if len(rule.ResourceNames) == 0 &&
					(rule.Resources[0] != "leases" || !slices.Equal(rule.Verbs, []string{"create"})) {
					t.Errorf("%s: %s has a rule in its own namespace that names nothing: %v", golden, identity, rule)
				}
			}
		}
	}
}

// excess are the rights that no identity of ours must have.
func excess(rules []rbacv1.PolicyRule) []string {
	var found []string
	for _, rule := range rules {
		for _, part := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs) {
			if slices.Contains([]string{"*", "pods/exec", "escalate", "bind", "deletecollection"}, part) {
				found = append(found, part)
			}
		}
		// To make one; that no patch of one that exists passes, a policy holds.
		if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"patch", "create"}) {
			found = append(found, fmt.Sprintf("%v secrets", rule.Verbs))
		}
		if slices.Contains(rule.Verbs, "impersonate") && len(rule.ResourceNames) == 0 {
			found = append(found, "impersonate anybody")
		}
		if slices.Contains(rule.Verbs, "update") && !slices.Equal(rule.Resources, []string{"mcpservers/finalizers"}) &&
			!slices.Equal(rule.Resources, []string{"mcpremoteproxies/finalizers"}) &&
			(rule.Resources[0] != "leases" || len(rule.ResourceNames) == 0) {
			found = append(found, fmt.Sprintf("update %v", rule.Resources))
		}
	}
	return found
}

func TestNobodyHasMoreThanIsNeeded(t *testing.T) {
	for _, golden := range []string{"default", "everything"} {
		for _, identity := range identities() {
			anywhere, own := roles(t, golden, identity)
			if found := excess(append(anywhere, own...)); len(found) > 0 {
				t.Errorf("%s: %s must not hold %v", golden, identity, found)
			}
		}
	}
	bad := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		{APIGroups: []string{"*"}, Resources: []string{"pods"}, Verbs: []string{"update"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
	}
	if found := excess(bad); len(found) != 4 {
		t.Errorf("of a Secret, a wildcard, an update and anybody's identity only %v is seen", found)
	}
}

// TestTheProcessWritesNothing holds that what the process may do as itself is
// to read, to hold the leader's Lease and to report events.
func TestTheProcessWritesNothing(t *testing.T) {
	anywhere, own := roles(t, "default", contract.IdentityOperator)
	for _, rule := range append(anywhere, own...) {
		reads := !slices.ContainsFunc(rule.Verbs,
			func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) })
		if !reads && !slices.Contains([]string{"leases", "events"}, rule.Resources[0]) &&
			!slices.Equal(rule.Verbs, []string{"impersonate"}) {
			t.Errorf("the process may %v", rule)
		}
	}
}

// TestOnlyTheGrantorMayMakeABackend holds that a StatefulSet can be created by
// nobody but who makes the runner's Role, and there to grant it.
func TestOnlyTheGrantorMayMakeABackend(t *testing.T) {
	for _, identity := range identities() {
		anywhere, _ := roles(t, "default", identity)
		may := slices.ContainsFunc(anywhere, func(r rbacv1.PolicyRule) bool {
			return r.Resources[0] == "statefulsets" && slices.Contains(r.Verbs, "create")
		})
		if may != (identity == contract.IdentityRBAC) {
			t.Errorf("that %s may create a StatefulSet is %t", identity, may)
		}
	}
}

// TestEveryIdentityHasAnAccount holds that what the policies know, and the
// process writes as, is installed, without a token for anybody.
func TestEveryIdentityHasAnAccount(t *testing.T) {
	var operator appsv1.Deployment
	rendered(t, "default", "Deployment", "freehold-operator", &operator)
	if args := operator.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args,
		"--identity-namespace=freehold-system") {
		t.Errorf("the operator is not told where its identities are: %q", args)
	}
	for _, identity := range identities() {
		var account corev1.ServiceAccount
		rendered(t, "default", "ServiceAccount", identity, &account)
		if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
			t.Errorf("pods of %s get its token unasked", identity)
		}
		if of := rbac.Rules(contract.Freehold(), identity, ""); len(of) == 0 {
			t.Errorf("%s has no rules", identity)
		}
	}
}

// TestNamespacesNarrowTheOperator holds that a list of namespaces leaves no right in any other.
func TestNamespacesNarrowTheOperator(t *testing.T) {
	text, err := os.ReadFile("testdata/everything.golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]int{}
	for _, object := range documents(t, string(text)) {
		switch object["kind"] {
		case "ClusterRoleBinding":
			// Tokens have no namespace, and neither has the path of metrics.
			if name, _ := metadata(object)["name"].(string); strings.HasPrefix(name, "freehold-operator-metrics-") {
				continue
			}
			t.Errorf("%v binds in every namespace", metadata(object)["name"])
		case "RoleBinding":
			bound[metadata(object)["namespace"].(string)]++
		}
	}
	each := len(identities())
	if want := map[string]int{"freehold-system": 1, "team-a": each, "team-b": each}; !maps.Equal(bound, want) {
		t.Errorf("the operator is bound in %v, want %v", bound, want)
	}
}
