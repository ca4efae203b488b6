package kit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// seedVariable replays the run of a seed.
const seedVariable = "FREEHOLD_SEED"

// Seed is that of a test's random choices: FREEHOLD_SEED, or another one each
// time. Who draws from it announces it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	return NumberOf(t, seedVariable, rand.Uint64()>>1)
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

// NumberOf reads a number from an environment variable, otherwise if it is not
// set.
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
