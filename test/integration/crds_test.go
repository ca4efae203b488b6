package integration

import (
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// CRDs and operator come of one chart, but not always at one time: with crds.install
// false somebody else applies the first.
var _ = Describe("An operator among CRDs of another release", func() {
	It("says which CRD lacks which field, writes nothing meanwhile, and goes on once it is applied", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("plain", ""))
		s.Apply(git, server("echo", ""))
		atRest(s, "plain")
		atRest(s, "echo")
		back := redefined(s, "status: {workload: {generation: 1, hash: a, bridgeImage: b}}",
			func(of func(...string) map[string]any) {
				// One field: of several the API server names any, and other words each time are another write.
				delete(of("properties", "status", "properties", "workload", "properties"), "bridgeImage")
			})

		By("restarting, which changes nothing")
		quiet(op)
		before, mark := s.Versions(), op.requests.Mark()
		op.restart()
		quiet(op)
		s.NothingMoved(before)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())

		By("writing the field")
		s.Apply(git, server("echo", "command: [/echo]\ntransport: stdio"))
		live := notReady(s, "echo", v1alpha1.ReasonApplyFailed)
		Expect(readyMessage(live)).To(And(
			ContainSubstring("the CustomResourceDefinition of MCPServer in the cluster is older than this program: apply the "+
				"CRDs of this release: "),
			ContainSubstring(".status.workload.bridgeImage: field not declared in schema")))
		Expect(live.Status.Workload.Generation).To(BeEquivalentTo(1))
		again := func() kit.Log { return op.writes(mark).Answered(http.StatusInternalServerError) }
		mark = op.requests.Mark()
		Eventually(func() int { return len(again()) }).
			Should(BeNumerically(">", 1), "it tries again, and has reported what it meets")
		settled := s.Versions()
		mark = op.requests.Mark()
		Eventually(again).ShouldNot(BeEmpty(), "it tries again")
		Expect(op.writes(mark).Accepted()).To(BeEmpty(), op.writes(mark).String())
		s.NothingMoved(settled)
		s.Apply(git, server("plain", "args: [a]"))
		rolledOut(s, "plain", 2)

		By("applying the CRD of this release")
		back()
		atRest(s, "echo")
		rolledOut(s, "echo", 2)
	})

	It("leaves fields that it does not know to their owners, and names them", func() {
		s := newEnv()
		back := redefined(s, "  later: {enabled: true}", func(of func(...string) map[string]any) {
			for _, part := range []string{"spec", "status"} {
				of("properties", part, "properties")["later"] = map[string]any{
					"type":       "object",
					"properties": map[string]any{"enabled": map[string]any{"type": "boolean"}},
				}
			}
		})
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		Expect(unknown(s)).To(BeEmpty())
		s.ApplyStatus("later", "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nstatus: "+
			"{later: {enabled: true}}\n")
		s.Apply(git, server("echo", "later: {enabled: true}\nargs: [a]"))
		rolledOut(s, "echo", 2)
		atRest(s, "echo")
		Expect(unknown(s)).To(And(ContainSubstring("does nothing for them: spec.later. "),
			ContainSubstring("upgrade the operator")))
		quiet(op)
		before, mark := s.Versions(), op.requests.Mark()
		op.restart()
		quiet(op)
		s.NothingMoved(before)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())
		s.Owns(serverOf(s, "echo"), git, "spec.later.enabled")
		s.Owns(serverOf(s, "echo"), "later", "status.later.enabled")

		By("going back to the CRD of this release")
		back()
		_, err := s.ApplyErr(git, server("echo", "later: {enabled: true}\nargs: [a]"))
		Expect(err).To(MatchError(ContainSubstring(".spec.later: field not declared in schema")))
		mark = op.requests.Mark()
		op.restart()
		quiet(op)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())
		s.Apply(git, server("echo", "args: [b]"))
		rolledOut(s, "echo", 3)
		Expect(unknown(s)).To(BeEmpty())
	})
})

// unknown is what a server that is ready says of fields that the operator does not know.
func unknown(s *kit.Env) string {
	GinkgoHelper()
	if c := meta.FindStatusCondition(ready(s, "echo").Status.Conditions, v1alpha1.ConditionUnknownFields); c != nil {
		return c.Message
	}
	return ""
}

// redefined edits the properties of parts of MCPServers, and returns what takes that back. Both return once the API
// server holds to it: it takes the probe, or refuses it, otherwise than before.
func redefined(s *kit.Env, probe string, edit func(of func(path ...string) map[string]any)) (back func()) {
	GinkgoHelper()
	const definition = "mcpservers.freehold.dev"
	taken := func() error {
		_, err := s.ApplyErr("probe", server("probe", "")+probe, client.DryRunAll)
		return err
	}
	as := func(want bool) types.GomegaMatcher {
		if want {
			return Succeed()
		}
		return MatchError(ContainSubstring("field not declared in schema"))
	}
	before := taken() == nil
	var stood []any
	s.Redefine(definition, func(d *unstructured.Unstructured) {
		versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
		s.Must(err, "reading the versions")
		stood = runtime.DeepCopyJSONValue(versions).([]any)
		edit(func(path ...string) map[string]any {
			at, _, err := unstructured.NestedFieldNoCopy(versions[0].(map[string]any),
				append([]string{"schema", "openAPIV3Schema"}, path...)...)
			s.Must(err, "reading the schema")
			return at.(map[string]any)
		})
		s.Must(unstructured.SetNestedSlice(d.Object, versions, "spec", "versions"), "editing the versions")
	})
	back = sync.OnceFunc(func() {
		s.Redefine(definition, func(d *unstructured.Unstructured) {
			s.Must(unstructured.SetNestedSlice(d.Object, stood, "spec", "versions"), "restoring the versions")
		})
		Eventually(taken).Should(as(before), "the API server holds to the definition of before")
	})
	DeferCleanup(back)
	Eventually(taken).Should(as(!before), "the API server holds to the edited definition")
	return back
}
