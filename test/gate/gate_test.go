package gate

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/test/kit"
)

func TestNoOrderOfEventsBreaksTheGate(t *testing.T) {
	runs, seed := kit.HowMany(t, "FREEHOLD_GATE_RUNS", defaultRuns), kit.Seed(t)
	t.Logf("%d runs from FREEHOLD_SEED=%d", runs, seed)
	for i := range runs {
		seed := seed + uint64(i)
		p := runScenario(t, seed, plant{})
		for _, f := range p.checker.findings {
			t.Errorf("FREEHOLD_SEED=%d: %s: %s", seed, f.rule, f.what)
		}
		if t.Failed() {
			t.Fatal(p.script.String())
		}
	}
}

// of each run are its name, what the API server numbers, and hashes, which
// depend on the server's uid.
var ofEachRun = regexp.MustCompile(`run-[0-9]+|"[0-9]+"|[0-9a-f]{64}|specified uid .*`)

func TestASeedReplays(t *testing.T) {
	seed := kit.Seed(t)
	var scripts [2]string
	for i := range scripts {
		scripts[i] = ofEachRun.ReplaceAllString(runScenario(t, seed, plant{}).script.String(), "…")
	}
	if diff := cmp.Diff(scripts[0], scripts[1]); diff != "" {
		t.Errorf("FREEHOLD_SEED=%d: two runs differ (-first +second):\n%s", seed, diff)
	}
}
