package faults

import (
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/freehold-dev/freehold/test/kit"
)

// An answer says little about what was done: after each of these the write may stand or not.
var _ = Describe("Answers that are wrong, late or lost", func() {
	It("delay a life and change nothing of it", func() {
		var all sync.WaitGroup
		for n := range together {
			all.Go(func() {
				defer GinkgoRecover()
				random := chance("answers", n)
				f := &flaky{rate: 0.03 + 0.12*random.Float64(), random: random, drawn: map[string]int{}}
				wire := func(config *rest.Config) { kit.Through(config, f.carry) }
				s := newEnv()
				op := operate(s, func(o *operator) {
					o.wire = func(config *rest.Config) <-chan struct{} { wire(config); return nil }
				})
				r := s.RunProxies()
				r.Wire = wire
				newLife(s, "echo").live(whole)
				wrong, how := f.wrong()
				GinkgoWriter.Printf("FREEHOLD_SEED=%d: %.0f %% of the requests, %d, went wrong:\n%s", seed, 100*f.rate, wrong,
					table(how))
				Expect(wrong).To(BeNumerically(">", 0))
				// The writes of a calm life, twice because what is seen of it in between differs, and two for each that went wrong:
				// one is sent again by the client, and one by the next pass.
				bounded(op.requests, s.Namespace, 2*38+2*wrong)
				bounded(r.Requests, s.Namespace, 2*15+2*wrong)
			})
		}
		all.Wait()
	})
})
