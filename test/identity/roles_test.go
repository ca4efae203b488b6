package identity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership/rbac"
	"github.com/freehold-dev/freehold/test/kit"
)

// right is one verb of one rule.
type right struct {
	verb, group, resource string
	names                 []string
}

// String is the right in words.
func (r right) String() string {
	return strings.TrimSuffix(r.verb+" "+r.resource+"."+r.group, ".")
}

func rightsOf(rules []rbacv1.PolicyRule) []right {
	var rights []right
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			rights = append(rights, right{verb, rule.APIGroups[0], rule.Resources[0], rule.ResourceNames})
		}
	}
	return rights
}

// without are the rules that are left when a right is taken away.
func without(rules []rbacv1.PolicyRule, r right) []rbacv1.PolicyRule {
	var left []rbacv1.PolicyRule
	for _, rule := range rules {
		rule := *rule.DeepCopy()
		if rule.APIGroups[0] == r.group && rule.Resources[0] == r.resource && slices.Equal(rule.ResourceNames, r.names) {
			rule.Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == r.verb })
		}
		if len(rule.Verbs) > 0 {
			left = append(left, rule)
		}
	}
	return left
}

// trial is one identity that lacks one right, at a server of its own.
type trial struct {
	right
	identity string
	// account is the ServiceAccount, in the test's namespace, that has the other rights.
	account string
	server  *server
}

// TestEveryRightIsNeeded holds that each identity, without any one of its rights and with all others, is refused
// something that it needs, by that right's name; and that with the right it is not. The rest is bound in one namespace
// only, as with the chart's namespaces.
func TestEveryRightIsNeeded(t *testing.T) {
	s := kit.NewEnv(t, plane)
	s.ServeHTTPRoutes()
	var trials []*trial
	for _, identity := range append(contract.Controllers(), contract.IdentityOperator, contract.IdentityRunner,
		contract.IdentityRemoteRunner) {
		known := len(trials)
		for i := range rightsOf(rbac.Rules(freehold, identity, "")) {
			name, whose := fmt.Sprintf("s%d-%d", known, i), ""
			switch identity {
			case contract.IdentityRunner:
				whose = name
				bind(s, name+"-runner", rbac.Rules(freehold, identity, whose))
			case contract.IdentityRemoteRunner:
				whose = name
				bind(s, name+".remote-runner", rbac.Rules(freehold, identity, whose))
			}
			rules := rbac.Rules(freehold, identity, whose)
			x := &trial{
				right: rightsOf(rules)[i], identity: identity, account: "without-" + name,
				server: makeServer(t, s, name),
			}
			bind(s, x.account, without(rules, x.right))
			trials = append(trials, x)
		}
	}
	if len(trials) < 80 {
		t.Errorf("there are %d rights", len(trials))
	}
	awaitRoles(t, s)
	for _, x := range trials {
		t.Run(x.identity+" without "+x.String(), func(t *testing.T) {
			request, says := x.request(s)
			if request == nil {
				t.Fatal("nothing asks for it: take it away, or add a request that needs it")
			}
			err := request(t.Context(), connect(t, x.lacking(s)))
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says) {
				t.Errorf("it is not refused with %q: %v", says, err)
			}
			if x.resource == "leases" || x.verb == "impersonate" {
				return // bound in the operator's namespace alone: TestEveryPassWorks elects it, and has it act as its controllers
			}
			if err := eventually(func() error { return request(t.Context(), connect(t, x.having())) }); err != nil {
				t.Error("with all rights it is refused: ", err)
			}
		})
	}
}

// bind gives rules to a ServiceAccount of the test's namespace.
func bind(s *kit.Env, account string, rules []rbacv1.PolicyRule) {
	s.Helper()
	meta := metav1.ObjectMeta{Name: account, Namespace: s.Namespace}
	s.Must(s.Client.Create(s.Ctx, &corev1.ServiceAccount{ObjectMeta: meta}), "making an account")
	s.Must(s.Client.Create(s.Ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}), "making a role")
	s.Must(s.Client.Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: s.Namespace}},
	}), "binding a role")
}

// awaitRoles returns once the API server holds to what was bound before.
func awaitRoles(t *testing.T, s *kit.Env) {
	t.Helper()
	bind(s, "last", []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}},
	})
	c := connect(t, plane.AsServiceAccount(s.Namespace, "last"))
	s.Must(eventually(func() error { return c.List(s.Ctx, &corev1.ConfigMapList{}, client.InNamespace(s.Namespace)) }),
		"waiting for the roles")
}

// eventually asks again while the API server has not seen a role yet.
func eventually(ask func() error) error {
	for end := time.Now().Add(kit.Patience); ; time.Sleep(20 * time.Millisecond) {
		if err := ask(); !apierrors.IsForbidden(err) || time.Now().After(end) {
			return err
		}
	}
}
