package kit

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

const (
	// seedVariable replays the run of a seed.
	seedVariable = "FREEHOLD_SEED"
	// exploreVariable draws another seed each time.
	exploreVariable = "FREEHOLD_EXPLORE"
)

// Pick draws one of the items for which is holds, the zero one if there is none.
func Pick[T any](random *rand.Rand, items []T, is func(T) bool) (drawn T) {
	var candidates []T
	for _, item := range items {
		if is(item) {
			candidates = append(candidates, item)
		}
	}
	if len(candidates) > 0 {
		drawn = candidates[random.IntN(len(candidates))]
	}
	return drawn
}

// Seed is that of a test's random choices: FREEHOLD_SEED, another one each time with FREEHOLD_EXPLORE, else the test's
// own, so that a change is judged by what the last one was judged by. Who draws from it announces it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	own := fnv.New64a()
	_, _ = own.Write([]byte(t.Name())) // never fails
	seed := own.Sum64() >> 1
	if Exploring() {
		seed = rand.Uint64() >> 1
	}
	return NumberOf(t, seedVariable, seed)
}

// Exploring reports whether FREEHOLD_EXPLORE is set, as it is by make soak: stories that
// would take too long for each change are told then.
func Exploring() bool {
	_, set := os.LookupEnv(exploreVariable)
	return set
}

// Announce says on stderr whose run begins: of a test that hangs, or that a
// panic ends, nothing else that tells the seed is printed.
func Announce(t testing.TB, seed uint64) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "%s: %s=%d\n", t.Name(), seedVariable, seed)
}

// HowMany is how much a test with random choices does: what variable says, 1 where
// FREEHOLD_SEED replays one run, else otherwise.
func HowMany(t testing.TB, variable string, otherwise uint64) int {
	t.Helper()
	if _, set := os.LookupEnv(seedVariable); set {
		otherwise = 1
	}
	return int(NumberOf(t, variable, otherwise))
}

// NumberOf reads a number from an environment variable, otherwise if it is not set.
func NumberOf(t testing.TB, variable string, otherwise uint64) uint64 {
	t.Helper()
	text, set := os.LookupEnv(variable)
	if !set {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: write a number", variable, text)
	}
	return n
}
