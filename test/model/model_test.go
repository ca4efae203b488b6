package model

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/test/kit"
)

// certain is what happens among so many writes, whatever the seed: most of these
// by the hundred. Without one of them the test covers less than it claims.
var certain = []string{
	"by operator", "by old operator", "by runner", "by other runner",
	"our apply", "our apply, refused", "our delete", "read",
	"create", "apply", "apply, refused", "forced apply", "forced apply, refused", "update", "update, refused",
	"patch", "patch, refused", "scale", "delete", "apply of status", "patch of status", "update of status",
	"change of port", "change of transport", "orphan delete", "orphaned", "adopted",
	"forbidden apply, refused", "forbidden patch, refused", "refused by a policy",
	"fault 409", "fault 429", "fault 500", "fault lost answer", "fault SIGKILL in a pass", "pass on a stale cache",
	"held before a write",
}

func TestNoOrderOfWritersBreaksOwnership(t *testing.T) {
	operations, seed := kit.HowMany(t, "FREEHOLD_MODEL_OPS", defaultOperations), kit.Seed(t)
	t.Logf("%d writes from FREEHOLD_SEED=%d", operations, seed)
	done, tally := 0, map[string]int{}
	runs := uint64(0)
	for ; done < operations; runs++ {
		seed := seed + runs
		p := holdsTo(t, seed, everybody)
		done += p.operations
		for what, n := range p.tally {
			tally[what] += n
		}
	}
	var lines strings.Builder
	for _, what := range slices.Sorted(maps.Keys(tally)) {
		fmt.Fprintf(&lines, "%6d %s\n", tally[what], what)
	}
	t.Logf("%d runs, %d writes:\n%s", runs, done, lines.String())
	if done < defaultOperations {
		return // so few need not have everything in them
	}
	for _, what := range certain {
		if tally[what] == 0 {
			t.Errorf("FREEHOLD_SEED=%d: nothing of this kind happened: %s", seed, what)
		}
	}
}

// holdsTo runs the scenario of a seed, and fails where an invariant does not hold.
func holdsTo(t *testing.T, seed uint64, mode mode) *scenario {
	t.Helper()
	p := runScenario(t, seed, mode, plant{})
	for _, f := range p.checker.findings {
		t.Errorf("FREEHOLD_SEED=%d: %s: %s", seed, f.rule, f.what)
	}
	if t.Failed() {
		t.Fatal(p.script.String())
	}
	return p
}

// of each run are its name, what the API server numbers, and hashes, which depend on the server's uid.
var ofEachRun = regexp.MustCompile(
	`run-[0-9]+|session-[0-9a-f]{8}|"[0-9]+"|[0-9a-f]{64}|[0-9a-f]{10}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func TestASeedReplays(t *testing.T) {
	replays(t, everybody)
	withoutPolicies(t, func(t *testing.T) { replays(t, runnersOnly) })
}

func replays(t *testing.T, mode mode) {
	t.Helper()
	seed := kit.Seed(t)
	var scripts [2]string
	for i := range scripts {
		scripts[i] = ofEachRun.ReplaceAllString(runScenario(t, seed, mode, plant{}).script.String(), "…")
	}
	if diff := cmp.Diff(scripts[0], scripts[1]); diff != "" {
		t.Errorf("FREEHOLD_SEED=%d: two runs differ (-first +second):\n%s", seed, diff)
	}
}
