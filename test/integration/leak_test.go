package integration

import (
	"fmt"
	"os"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// What an operator started ends with it: a process that lives through a hundred
// elections must not be larger for them.
var _ = It("An operator leaves nothing behind, however often it is started", func() {
	const times = 20
	s := newEnv()
	op := operate(s)
	s.RunProxies()
	s.Apply(git, server("echo", ""))
	atRest(s, "echo")
	op.restart() // what is made once is made
	quiet(op)
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors()
	for range times {
		op.restart()
	}
	quiet(op)
	// A few come and go with the connections of whoever else works here.
	Eventually(runtime.NumGoroutine).Should(BeNumerically("<", goroutines+times), func() string {
		stacks := make([]byte, 1<<20)
		return fmt.Sprintf("goroutines before %d:\n%s", goroutines, stacks[:runtime.Stack(stacks, true)])
	})
	Eventually(openDescriptors).Should(BeNumerically("<", descriptors+times))
})

func openDescriptors() int {
	GinkgoHelper()
	open, err := os.ReadDir("/dev/fd")
	Expect(err).NotTo(HaveOccurred())
	return len(open)
}
