package guard_test

import (
	"context"
	"fmt"
	"testing"

	"example.com/guard/guard"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

var plane *kit.Plane

// The API server has Freehold's kinds, roles and policies.
func TestMain(m *testing.M) {
	kit.Main(m, &plane, func(ctx context.Context, _ string) error { return plane.Install(ctx) })
}

const manifest = `apiVersion: freehold.dev/v1alpha1
kind: MCPServer
metadata: {name: search, labels: {example.com/team: blue}}
spec:
  image: %s
  authzConfig:
    policies:
    - {name: git, policy: 'permit(principal, action == Action::"list_tools", resource);'}
`

// pass is one pass of the guard, whose requests are counted.
func pass(s *kit.Env, requests *kit.Requests) {
	s.Helper()
	counted, err := client.New(requests.Wrap(s.Config), client.Options{Scheme: s.Scheme})
	s.Must(err, "building the guard's client")
	controller := guard.Guard{Client: counted}
	_, err = controller.Reconcile(s.Ctx,
		ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.Namespace, Name: "search"}})
	s.Must(err, "a pass of the guard")
}

func TestTheGuardOwnsItsPolicyAndNothingElse(t *testing.T) {
	s, requests := kit.NewEnv(t, plane), &kit.Requests{}
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "search"}}
	s.Apply("git", fmt.Sprintf(manifest, "registry.example.com/search:1"))
	pass(s, requests)
	s.Owns(server, guard.Manager, "spec.authzConfig.policies[name=guard]")
	s.NobodyBut(server, "spec.authzConfig.policies[name=guard]", guard.Manager)
	s.NobodyBut(server, "spec.authzConfig.policies[name=git]", "git")
	s.NobodyBut(server, "spec.image", "git")

	// Git applies again, and neither takes anything from the other.
	s.Apply("git", fmt.Sprintf(manifest, "registry.example.com/search:2"))
	s.Read(server)
	if n := len(server.Spec.AuthzConfig.Policies); n != 2 || server.Spec.Image != "registry.example.com/search:2" {
		t.Errorf("there are %d policies and the image %s", n, server.Spec.Image)
	}
}

func TestAPassThatChangesNothingWritesNothing(t *testing.T) {
	s, requests := kit.NewEnv(t, plane), &kit.Requests{}
	s.Apply("git", fmt.Sprintf(manifest, "registry.example.com/search:1"))
	pass(s, requests)
	before := requests.Mark()
	pass(s, requests)
	requests.Since(before).Writes().AtMost(s, 0, "a second pass")
}

func TestAServerThatIsReadyIsGuardedToo(t *testing.T) {
	s, requests := kit.NewEnv(t, plane), &kit.Requests{}
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "search"}}
	s.Apply("git", fmt.Sprintf(manifest, "registry.example.com/search:1"))
	s.PretendReady("search")
	s.AwaitCondition(server, v1alpha1.ConditionReady, metav1.ConditionTrue)
	pass(s, requests)
	s.Owns(server, guard.Manager, "spec.authzConfig.policies[name=guard]")
	s.NobodyBut(server, "status.conditions[type=Ready]", "mcpserver.freehold.dev/conditions")
}

func TestBesideFreeholdBothKeepTheirFields(t *testing.T) {
	s, requests := kit.NewEnv(t, plane), &kit.Requests{}
	s.Operate()
	s.RunProxies()
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "search"}}
	s.Apply("git", fmt.Sprintf(manifest, "registry.example.com/search:1"))
	s.AwaitCondition(server, v1alpha1.ConditionReady, metav1.ConditionTrue)
	pass(s, requests)
	s.AwaitCondition(server, v1alpha1.ConditionReady, metav1.ConditionTrue)
	s.Owns(server, guard.Manager, "spec.authzConfig.policies[name=guard]")
	s.NobodyBut(server, "status.url", "mcpserver.freehold.dev/status")
}
