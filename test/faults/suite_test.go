// Package faults hurts what Freehold stands on, and Freehold itself, while it makes, changes, scales and removes
// servers: the API server and etcd, answers and watches, clocks, and its own processes. Each story ends converged with
// nothing lost, and what it saw on the way is judged too.
//
// life_test.go is the story that nearly every test tells, checks_test.go what has to be true at the end of each part of
// it, and observer_test.go what has to be true at any time. operator_test.go runs operators, and wire_test.go has what
// goes wrong between a process and the API server. rollouts_test.go has each step of a rollout of content beside what
// serves, and rollouts_checks_test.go judges each state of that. Each other file is one kind of fault. Each process of
// Ginkgo has a control plane of its own, so that no story waits for another to end.
//
// FREEHOLD_SEED replays the random choices of a run, as far as the order of requests of several processes is the same;
// FREEHOLD_KILLS is how often each kind of process is killed.
package faults

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/test/kit"
)

// defaultKills is how often each kind of process is killed unless FREEHOLD_KILLS says otherwise.
const defaultKills = 12

var (
	plane *kit.Plane
	seen  *observer
	// seed is that of the whole run.
	seed  uint64
	kills int
)

func TestFaults(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(kit.Patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	seed = kit.Seed(t)
	kills = int(kit.NumberOf(t, "FREEHOLD_KILLS", defaultKills))
	kit.Announce(t, seed)
	suite, reporter := GinkgoConfiguration()
	reporter.Succinct = !reporter.Verbose
	RunSpecs(t, "Freehold among faults", suite, reporter)
}

var _ = BeforeSuite(func() {
	ctrllog.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(func() error {
		cancel()
		return plane.Stop()
	})
	var err error
	plane, err = kit.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(plane.Install(ctx)).To(Succeed())
	seen = watchEverything(ctx, plane)
})

// atLength leaves a story out of make test, which everybody waits for.
func atLength() {
	GinkgoHelper()
	if !kit.Exploring() {
		Skip("make soak tells it")
	}
}

// newEnv gives the present story a namespace.
func newEnv() *kit.Env {
	GinkgoHelper()
	return kit.NewEnv(GinkgoTB(), plane)
}

// chance is a source of random choices, another one for each name and number.
func chance(name string, n int) *rand.Rand {
	words := uint64(n)
	for _, c := range name {
		words = words*31 + uint64(c)
	}
	return rand.New(rand.NewPCG(seed, words))
}
