package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/freehold-dev/freehold/test/kit"
)

// together is how many lives go on at the same time.
const together = 4

// A process lives to see this many writes at most, of about 30 that an operator and 10 that the runners of a life make.
const (
	operatorReach = 9
	runnerReach   = 4
)

// killer dooms each process of one kind in one life.
type killer struct {
	reach int

	mu     sync.Mutex
	random *rand.Rand
	doomed []*doom
}

// doom makes the next process mortal.
func (k *killer) doom(config *rest.Config) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := newDoom(1+k.random.IntN(k.reach), k.random.IntN(2) == 0)
	k.doomed = append(k.doomed, d)
	kit.Through(config, d.carry)
	return d.died
}

// deaths are the writes at which processes died, in their order.
func (k *killer) deaths() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var last []string
	for _, d := range k.doomed {
		if d.dead() {
			last = append(last, d.last)
		}
	}
	return last
}

// Killed at any point, a process leaves nothing that its successor cannot go on
// from: nothing is made twice, claimed twice, or forgotten.
var _ = DescribeTable("Killed before or after any write,", func(who string, reach int, mortal func(*kit.Env, *killer)) {
	var mu sync.Mutex
	points := map[string]int{}
	killed, lives := 0, 0
	next := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if killed >= kills {
			return 0, false
		}
		lives++
		return lives, true
	}
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			defer GinkgoRecover()
			for n, more := next(); more; n, more = next() {
				k := &killer{reach: reach, random: chance(who, n)}
				s := newEnv()
				mortal(s, k)
				newLife(s, "echo").live(brief)
				mu.Lock()
				for _, point := range k.deaths() {
					points[point]++
					killed++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	GinkgoWriter.Printf("FREEHOLD_SEED=%d: %s was killed %d times in %d lives, at %d points:\n%s", seed, who, killed,
		lives, len(points), table(points))
	Expect(killed).To(BeNumerically(">=", kills))
	Expect(len(points)).To(BeNumerically(">=", min(1+kills/20, 4)), "too few points:\n%s", table(points))
},
	Entry("the operator goes on", "operator", operatorReach, func(s *kit.Env, k *killer) {
		operate(s, func(o *operator) { o.wire = k.doom })
		s.RunProxies()
	}),
	Entry("a runner goes on", "runner", runnerReach, func(s *kit.Env, k *killer) {
		operate(s)
		s.RunProxies().Wire = func(config *rest.Config) { k.doom(config) }
	}),
)

func table(counts map[string]int) string {
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&text, "%5d × %s\n", counts[what], what)
	}
	return text.String()
}
