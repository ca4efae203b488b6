package integration

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	policy     = "permit(principal, action, resource);"
	withPolicy = "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nspec: {authzConfig: " +
		"{policies: [{name: all, policy: \"" + policy + "\"}]}}\n"
	withInvoice = "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo, finalizers: " +
		"[billing.example.com/invoice]}\n"
	withScan     = `status: {conditions: [{type: Scanned, status: "True", reason: Clean, message: "no findings", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`
	nothingStays = "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo, uid: %q}\n"
)

// Other controllers own parts of the same server. Whatever Freehold does, those
// parts stay as their owners wrote them.
var _ = Describe("What others own of an MCPServer", func() {
	It("keeps a policy that was applied out-of-band, from the finalizer's birth to its release", func() {
		s := newEnv()
		s.RunProxies()
		recording := s.Record(serverOf(s, "echo"))
		s.Apply(git, server("echo", ""))
		s.Apply(authorizer, withPolicy)
		operate(s)
		rolledOut(s, "echo", 1)

		s.Apply(git, server("echo", `restartedAt: "2026-01-01T00:00:00Z"`))
		rolledOut(s, "echo", 2)
		s.Apply(git, kit.Server("echo", imageTwo, ""))
		rolledOut(s, "echo", 3)
		s.Owns(serverOf(s, "echo"), authorizer, "spec.authzConfig")

		s.Delete(serverOf(s, "echo"))
		s.AwaitGone(serverOf(s, "echo"))
		applied := false
		recording.Check(func(f kit.State) error {
			policies, _, err := unstructured.NestedSlice(f.Object.Object, "spec", "authzConfig", "policies")
			applied = applied || len(policies) > 0
			want := []any{map[string]any{"name": "all", "policy": policy}}
			if diff := cmp.Diff(want, policies); err == nil && applied && diff != "" {
				err = fmt.Errorf("the policies changed: %s", diff)
			}
			return err
		})
	})

	It("lets the server go also where another holds our finalizer", func() {
		s := newEnv()
		operate(s)
		s.Apply(git, server("echo", ""))
		s.Apply("velero", "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo, finalizers: "+
			"[freehold.dev/mcpserver]}\n")
		live := notReady(s, "echo", v1alpha1.ReasonStarting)
		s.Delete(live)
		s.AwaitGone(live)
	})

	It("keeps our finalizer while another owner lets go first", func() {
		s := newEnv()
		operate(s)
		s.Apply(git, server("echo", ""))
		s.Apply("billing", withInvoice)
		live := notReady(s, "echo", v1alpha1.ReasonStarting)
		s.Apply("billing", fmt.Sprintf(nothingStays, live.UID))
		s.Read(live)
		Expect(live.Finalizers).To(ConsistOf(ourFinalizer))
	})
})
