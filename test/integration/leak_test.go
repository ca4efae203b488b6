package integration

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// What an operator started ends with it: a suite that starts a hundred in one process is not larger for them.
var _ = It("An operator leaves nothing behind, however often it is started", func() {
	const times = 20
	s := newEnv()
	op := operate(s)
	s.RunProxies()
	s.Apply(git, server("echo", ""))
	atRest(s, "echo")
	op.restart() // what is made once is made
	quiet(op)
	before, descriptors := goroutines(), openDescriptors()
	for range times {
		op.restart()
	}
	quiet(op)
	// A few come and go with the connections of whoever else works here.
	Eventually(func() int { return len(goroutines()) }).Should(BeNumerically("<", len(before)+times/2), func() string {
		return fmt.Sprintf("goroutines before %d:\n%s", len(before), strings.Join(goroutines(), "\n\n"))
	})
	Eventually(openDescriptors).Should(BeNumerically("<", descriptors+times/2))
})

// goroutines are the stacks of all, but for one that k8s.io/apimachinery's watch.Filter leaves
// where a watch of metadata ends: it passes the last event on, and nobody takes it.
func goroutines() []string {
	stacks := make([]byte, 8<<20)
	all := strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n")
	return slices.DeleteFunc(all, func(stack string) bool {
		return strings.Contains(stack, "watch.(*filteredWatch).loop")
	})
}

func openDescriptors() int {
	GinkgoHelper()
	open, err := os.ReadDir("/dev/fd")
	Expect(err).NotTo(HaveOccurred())
	return len(open)
}
