// Package memory gives back to the machine what a process no longer uses.
package memory

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Pause is how long a process is quiet before it gives back what it does not use.
const Pause = 10 * time.Second

// GiveBack returns unused memory to the machine whenever nothing was collected for a Pause and worthwhile bytes were
// allocated since it last did: by itself the runtime keeps what it once grew to. It does not return.
func GiveBack(worthwhile uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/cycles/automatic:gc-cycles"}}
	var given, last reading
	for ; ; time.Sleep(Pause) {
		metrics.Read(samples)
		now := reading{allocated: samples[0].Value.Uint64(), cycles: samples[1].Value.Uint64()}
		if due(now, last, given, worthwhile) {
			given = now
			debug.FreeOSMemory()
		}
		last = now
	}
}

// reading is what the runtime has allocated and how often it has collected garbage by itself, since the process began.
type reading struct{ allocated, cycles uint64 }

// due reports whether to give back now: last was read a Pause ago, and given when memory
// was last given back. A burst is not interrupted, nor is the first.
func due(now, last, given reading, worthwhile uint64) bool {
	return now.cycles == last.cycles && now.allocated-given.allocated >= worthwhile
}
