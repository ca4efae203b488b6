//go:build !race

// The race detector's frames are larger.

package authz

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// What the parser calls itself for is on the stack, which no count of allocations shows.
func TestNoTextTakesALargeStack(t *testing.T) {
	const policy, most = 16 << 10, 4 << 20
	// While garbage is collected, a stack that was left for a larger one counts as in use.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for what, text := range map[string]string{
		"brackets":      when(strings.Repeat("(", policy/2-40) + "true" + strings.Repeat(")", policy/2-40)),
		"conditions":    when(strings.Repeat("if true then true else ", policy/24) + "true"),
		"signs":         when(strings.Repeat("!", policy-100) + "true"),
		"attributes":    when("context" + strings.Repeat(".a", policy/2-40) + " == 1"),
		"short chains":  when("context" + strings.Repeat(".a", 490) + " == 1"),
		"a long sum":    when("1" + strings.Repeat("+1", policy/2-40) + " == 1"),
		"conjunctions":  when("true" + strings.Repeat("&&true", policy/6-20)),
		"disjunctions":  when("true" + strings.Repeat("||true", policy/6-20)),
		"calls":         when("context" + strings.Repeat(".b(1)", policy/5-20)),
		"as far as may": when(strings.Repeat("(", 90) + "true" + strings.Repeat(")", 90)),
	} {
		runtime.GC()
		took := make(chan uint64)
		go func() {
			before := stackInUse()
			Canonical(text)
			_, _ = Unmatched([]Source{{"p", text}}, "")
			took <- stackInUse() - before
		}()
		if bytes := <-took; bytes > most && bytes < 1<<62 {
			t.Errorf("%s: the stack grew by %d MiB", what, bytes>>20)
		} else if testing.Verbose() {
			t.Logf("%s: %d KiB", what, bytes>>10)
		}
	}
}

func stackInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}
