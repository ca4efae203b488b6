package plugin

import (
	"fmt"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// Another manager gets what Freehold holds, and at no time is anything missing.
func TestFieldsAreHandedToAnother(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	children := string(ownership.MCPServerChildren)
	hand := func(in, to string, more ...string) answer {
		return s.asks(in, append([]string{"release", "deployment/echo-proxy", "--manager", children, "--to", to}, more...)...)
	}
	// It keeps what it has of its own.
	s.Apply("git", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"echo-proxy","labels":{"team":"shop"}}}`)
	before := proxyOf(s)
	s.Read(before)
	s.says(hand("", string(ownership.MCPServerScale), "--yes"), 2, "is a field manager of Freehold")
	s.says(hand("", "mcpserver.freehold.dev/new", "--yes"), 2, "is a field manager of Freehold")
	s.says(hand("", children, "--yes"), 2, "holds it already")
	s.says(hand("", "git", "--yes", "--subresource", "scale"), 2, "cannot be handed over")
	s.says(hand("no\n", "git"), 2, "nothing was changed")
	s.says(hand("", "git", "--dry-run"), 0, "could be handed over (dry run)")
	film := s.Film(proxyOf(s))
	s.says(hand("y\n", "git"), 0, `goes to "git"`, "spec.template.spec.containers[name=proxy].image", "Deployment/echo-proxy handed over")
	after := proxyOf(s)
	s.OwnsNothing(after, children)
	s.Owns(after, "git", "metadata.labels.team", "spec.template.spec.containers[name=proxy].image", "metadata.ownerReferences", `metadata.labels["freehold.dev/server"]`, "spec.replicas")
	want := s.Unstructured(before).Object
	film.Check(func(f kit.Frame) error {
		if !reflect.DeepEqual(f.Object.Object["spec"], want["spec"]) {
			return fmt.Errorf("the spec is %v, and was %v", f.Object.Object["spec"], want["spec"])
		}
		return nil
	})
	s.Read(after)
	if after.Generation != before.Generation || !reflect.DeepEqual(after.Labels, before.Labels) || !reflect.DeepEqual(after.OwnerReferences, before.OwnerReferences) {
		t.Errorf("it was\n%+v\nand is\n%+v", before.ObjectMeta, after.ObjectMeta)
	}
	s.says(hand("", "git", "--yes"), 2, "holds nothing of Deployment/echo-proxy by apply there")
}

func TestAStatusIsHandedToAnother(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.ApplyStatus("scanner", `{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo"},"status":{"conditions":[
		{"type":"Scanned","status":"True","reason":"Clean","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	s.says(s.asks("", "release", "mcp/echo", "--manager", "scanner", "--to", "other-scanner", "--subresource", "status", "--yes"), 0, "handed over")
	s.OwnsNothing(serverOf(s), "scanner")
	s.Owns(serverOf(s), "other-scanner", "status.conditions[type=Scanned].reason")
	s.Owns(serverOf(s), string(ownership.MCPServerConditions), "status.conditions[type=Ready]")
}

// What an apply cannot state is not lost: then nothing is let go.
func TestWhatCannotBeHandedOverStays(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.Apply("git", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"shop"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"tmp","emptyDir":{}}]}}}}`)
	s.says(s.asks("", "release", "deployment/shop", "--manager", "git", "--to", "helm", "--yes"), 2,
		`"helm" could not be given spec.template.spec.volumes[name=tmp].emptyDir of Deployment/shop: "git" has let go of nothing`)
	shop := &appsv1.Deployment{}
	shop.SetName("shop")
	s.Owns(shop, "git", "spec.template.spec.volumes[name=tmp].emptyDir", "spec.replicas")
	s.Owns(shop, "helm", "spec.replicas")
}
