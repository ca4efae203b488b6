package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/freehold-dev/freehold/test/kit"
)

// Most events of a rollout say nothing that a pass decides by. With one pod of each kind 20 and 28 passes were made
// where each event woke one, and 9 of each where those of children wait for each other. A slow machine merges fewer.
var _ = Describe("The passes of one server", func() {
	It("are few for its creation and for another image", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		before := passes("mcpserver")
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		quiet(op)
		created := passes("mcpserver") - before
		s.Apply(git, kit.Server("echo", imageTwo, inPlace))
		rolledOut(s, "echo", 2)
		atRest(s, "echo")
		quiet(op)
		changed := passes("mcpserver") - before - created
		GinkgoWriter.Println("passes of the creation:", created, "of another image:", changed)
		Expect(created).To(BeNumerically("<=", 16))
		Expect(changed).To(BeNumerically("<=", 18))
	})
})

// passes is how many a controller has made in this process.
func passes(controller string) (sum float64) {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == controller {
					sum += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}
