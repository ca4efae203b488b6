// Package policy holds what config/policy refuses, on a real API server: who
// writes what a policy has nothing against must not notice that it is there.
package policy

import (
	"context"
	"errors"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

var (
	plane *kit.Plane
	admin client.Client
)

func TestMain(m *testing.M) {
	kit.Main(m, &plane, func(ctx context.Context, _ string) error {
		admin = plane.Client
		// Before the policies, as an older release left them.
		return errors.Join(leaveOlder(ctx), leaveHeavy(ctx), plane.Install(ctx), allow(ctx))
	}, kit.TypeChecking())
}

// allow gives every ServiceAccount every right, so that what is refused is refused by a policy.
func allow(ctx context.Context) error {
	return admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everything"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts"}},
	})
}

// as is a client of a ServiceAccount.
func as(tb testing.TB, namespace, name string) client.Client {
	tb.Helper()
	return clientOf(tb, plane.AsServiceAccount(namespace, name))
}

func clientOf(tb testing.TB, config *rest.Config) client.Client {
	tb.Helper()
	c, err := client.New(config, client.Options{Scheme: plane.Scheme, Mapper: admin.RESTMapper()})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// controller is the client of the MCPServer controller.
func controller(tb testing.TB) client.Client {
	tb.Helper()
	return as(tb, kit.SystemNamespace, contract.IdentityMCPServer)
}

// object reads YAML.
func object(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		panic(fmt.Sprintf("%v in:\n%s", err, text))
	}
	return o
}

// applied sends an apply, of the status if sub says so.
func applied(ctx context.Context, c client.Client, manager, sub string, o *unstructured.Unstructured,
	force bool,
) error {
	ac := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
	options := client.ApplyOptions{FieldManager: manager, Force: &force}
	if sub == "" {
		return c.Apply(ctx, ac, &options)
	}
	return c.SubResource(sub).Apply(ctx, ac, &client.SubResourceApplyOptions{ApplyOptions: options})
}
