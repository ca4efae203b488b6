package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/cmd/internal/memory"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
)

// ballastSize is how many bytes of heap there are that nothing is ever written to, so that
// they take no memory of the machine. The collector counts them: it runs when as much
// garbage has come together, and not for every 4 MB, of which a busy proxy makes tens a
// second. A higher GOGC would allow many times what open streams hold. A bridge has none:
// it is in the container of the user's server.
const ballastSize = 16 << 20

const (
	// startingGrowth is by how much the heap grows until it is collected in the
	// first pause, in per cent, of which the ballast takes most: the schemas that
	// are read leave ten times as much garbage as they take, and what lives among
	// it would hold its pages for good.
	startingGrowth = 10
	// worthwhile is the garbage that it is given back for, in bytes.
	worthwhile = 1 << 20
)

// memoryOf divides the container's limit, of which the collector keeps two thirds: the rest is what is no heap, files
// that are mapped, and what the kernel keeps of connections.
func memoryOf(limit int64) *budget.Budget {
	if limit == math.MaxInt64 { // there is none
		return budget.New(budget.Default)
	}
	debug.SetMemoryLimit(limit / 3 * 2)
	return budget.New(limit)
}

// giveBack gives memory back to the machine, after the start and after each time
// of many calls.
func giveBack() {
	ballast := make([]byte, ballastSize)
	defer runtime.KeepAlive(ballast)
	runtime.MemProfileRate = 0 // nobody reads the profile
	growth := debug.SetGCPercent(startingGrowth)
	time.Sleep(memory.Pause)
	debug.SetGCPercent(growth)
	// The runtime writes zeros to it where the heap happens to have used its pages.
	_ = syscall.Madvise(ballast, syscall.MADV_DONTNEED) //nolint:errcheck // it takes memory then, and nothing breaks
	memory.GiveBack(worthwhile)
}
