package plugin

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// Another manager gets what Freehold holds, and at no time is anything missing.
func TestFieldsAreHandedToAnother(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	children := string(contract.MCPServerChildren)
	hand := func(in, to string, more ...string) answer {
		return s.asks(in, append([]string{"release", "deployment/echo-proxy", "--manager", children, "--to", to}, more...)...)
	}
	// It keeps what it has of its own.
	s.Apply("git",
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"echo-proxy","labels":{"team":"shop"}}}`)
	before := proxyOf(s)
	s.Read(before)
	s.says(hand("", string(contract.MCPServerScale), "--yes"), 2, "is a field manager of Freehold")
	s.says(hand("", "mcpserver.freehold.dev/new", "--yes"), 2, "is a field manager of Freehold")
	s.says(hand("", children, "--yes"), 2, "owns them already")
	s.says(hand("", "git", "--yes", "--subresource", "scale"), 2, "cannot be handed over")
	s.says(hand("no\n", "git"), 2, "nothing was changed")
	s.says(hand("", "git", "--dry-run"), 0, "could be handed over (dry run)")
	recording := s.Record(proxyOf(s))
	s.says(hand("y\n", "git"), 0, `"git" gets these fields`, "spec.template.spec.containers[name=proxy].image",
		"Deployment/echo-proxy handed over")
	after := proxyOf(s)
	s.OwnsNothing(after, children)
	s.Owns(after, "git", "metadata.labels.team", "spec.template.spec.containers[name=proxy].image",
		"metadata.ownerReferences", `metadata.labels["freehold.dev/server"]`, "spec.replicas")
	want := s.Unstructured(before).Object
	recording.Check(func(f kit.State) error {
		if !reflect.DeepEqual(f.Object.Object["spec"], want["spec"]) {
			return fmt.Errorf("the spec is %v, and was %v", f.Object.Object["spec"], want["spec"])
		}
		return nil
	})
	s.Read(after)
	if after.Generation != before.Generation || !reflect.DeepEqual(after.Labels, before.Labels) ||
		!reflect.DeepEqual(after.OwnerReferences, before.OwnerReferences) {
		t.Errorf("it was\n%+v\nand is\n%+v", before.ObjectMeta, after.ObjectMeta)
	}
	s.says(hand("", "git", "--yes"), 2, "owns no fields of Deployment/echo-proxy by apply")
}

// Whoever leaves Freehold keeps all objects of a server, running, as docs/take-over.md says.
func TestAServersObjectsAreKeptWithoutIt(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	server := serverOf(s)
	s.Read(server)
	s.Delete(server, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	s.Await(server, "the children were orphaned", func() error {
		if server.DeletionTimestamp == nil || len(server.Finalizers) != 1 {
			return fmt.Errorf("the finalizers are %q", server.Finalizers)
		}
		return nil
	})
	s.says(s.asks("", "release", "mcp", "echo", "--manager", string(contract.MCPServerFinalizer), "--yes"), 0, "released")
	s.AwaitGone(server)

	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: s.Namespace} }
	kept := map[string]client.Object{
		"serviceaccount": &corev1.ServiceAccount{ObjectMeta: named("echo-runner")},
		"role":           &rbacv1.Role{ObjectMeta: named("echo-runner")},
		"rolebinding":    &rbacv1.RoleBinding{ObjectMeta: named("echo-runner")},
		"service":        &corev1.Service{ObjectMeta: named("echo-proxy")},
		"services":       &corev1.Service{ObjectMeta: named("echo-backend")},
		"svc":            &corev1.Service{ObjectMeta: named("echo-backend-headless")},
		"deployment":     proxyOf(s),
		"statefulset":    &appsv1.StatefulSet{ObjectMeta: named("echo-backend")},
	}
	ours := func(object client.Object) (managers []string) {
		for _, entry := range s.Unstructured(object).GetManagedFields() {
			if contract.Freehold().Claims(entry.Manager) {
				managers = append(managers, entry.Manager)
			}
		}
		return managers
	}
	was := map[string]int64{}
	for kind, object := range kept {
		for _, manager := range ours(object) {
			s.says(s.asks("", "release", kind, object.GetName(), "--manager", manager, "--to", "git", "--yes"), 0, "handed over")
		}
		was[kind] = s.Unstructured(object).GetGeneration()
	}
	s.pass("echo") // the operator is back, and the runner has never gone
	time.Sleep(time.Second)
	for kind, object := range kept {
		live := s.Unstructured(object)
		if managers := ours(object); len(managers) > 0 || live.GetGeneration() != was[kind] ||
			live.GetDeletionTimestamp() != nil {
			t.Errorf("%s %s has generation %d after %d, and is of %v", kind, object.GetName(), live.GetGeneration(), was[kind],
				managers)
		}
	}
}

func TestAStatusIsHandedToAnother(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.ApplyStatus("scanner",
		`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo"},"status":{"conditions":[
		{"type":"Scanned","status":"True","reason":"Clean","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	s.says(s.asks("", "release", "mcp/echo", "--manager", "scanner", "--to", "other-scanner", "--subresource", "status",
		"--yes"), 0, "handed over")
	s.OwnsNothing(serverOf(s), "scanner")
	s.Owns(serverOf(s), "other-scanner", "status.conditions[type=Scanned].reason")
	s.Owns(serverOf(s), string(contract.MCPServerConditions), "status.conditions[type=Ready]")
}

// An apply of ours leaves empty maps out; what is handed over keeps them.
func TestEmptyMapsAreHandedOverToo(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.Apply("git",
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"shop"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"tmp","emptyDir":{}}]}}}}`)
	s.says(s.asks("", "release", "deployment/shop", "--manager", "git", "--to", "helm", "--yes"), 0,
		"Deployment/shop handed over")
	shop := &appsv1.Deployment{}
	shop.SetName("shop")
	s.OwnsNothing(shop, "git")
	s.Owns(shop, "helm", "spec.template.spec.volumes[name=tmp].emptyDir", "spec.replicas")
}
