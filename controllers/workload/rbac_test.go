package workload

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership/rbac"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// The runner of a server may do what its rows of the contract need at that server, and nothing else. Of history it may
// read the contents that it keeps.
func TestTheRunnersRoleIsThatOfTheContract(t *testing.T) {
	for name, kept := range map[string][]v1alpha1.BackendContent{
		"at rest": nil, "in a rollout": {{Hash: "fedcba98765"}, {Hash: "0123456789a"}},
	} {
		t.Run(name, func(t *testing.T) { roleOf(t, kept) })
	}
}

func roleOf(t *testing.T, kept []v1alpha1.BackendContent) {
	t.Helper()
	built, err := json.Marshal(Role(
		OwnerOf(&v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "team", UID: "1"}}), kept...))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.Role
	if err := json.Unmarshal(built, &role); err != nil {
		t.Fatal(err)
	}
	want := rbac.Rules(contract.Freehold(), contract.IdentityRunner, "echo")
	history := slices.IndexFunc(want, func(r rbacv1.PolicyRule) bool { return r.Resources[0] == "controllerrevisions" })
	if want[history].ResourceNames = []string{"echo-content-0123456789", "echo-content-fedcba9876"}; kept == nil {
		want = slices.Delete(want, history, history+1)
	}
	slices.SortFunc(role.Rules, func(a, b rbacv1.PolicyRule) int {
		return strings.Compare(a.APIGroups[0]+"/"+a.Resources[0], b.APIGroups[0]+"/"+b.Resources[0])
	})
	if diff := cmp.Diff(want, role.Rules); diff != "" || len(want) == 0 {
		t.Errorf("the runner's Role is not what the contract says (-contract +built):\n%s", diff)
	}
	for _, rule := range role.Rules {
		if len(rule.ResourceNames) == 0 {
			t.Errorf("a rule of the runner names no object: %v", rule)
		}
	}
}
