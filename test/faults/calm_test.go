package faults

import (
	. "github.com/onsi/ginkgo/v2"
)

// What the other stories hurt, unhurt: so that they fail for what they do.
var _ = Describe("A life", func() {
	It("is whole without faults", func() {
		s := newEnv()
		op := operate(s)
		r := s.RunProxies()
		newLife(s, "echo").live(whole)
		op.rests()
		GinkgoWriter.Printf("operator: %s\nrunner: %s", op.requests.Since(0).Writes(), r.Requests.Since(0).Writes())
	})
})
