package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/test/kit"
)

// What a changed configuration costs is compared with a floor that writes the same to
// each server; the configuration's own status is beside it.
func TestTheFloorOfAChangeWritesWhatFreeholdWrites(t *testing.T) {
	b := &bench{settings: settings{Workers: few, QPS: -1, PriorityQueue: true}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*kit.Patience)
	defer cancel()
	for _, c := range changes[:2] {
		must(t, b.config(ctx, c, few))
	}
	ours, floor := find(t, b, "config", "policy", freehold), find(t, b, "config", "policy", "floor")
	wrote := written(ours)
	own := wrote["apply mcpauthzconfigs/status"]
	delete(wrote, "apply mcpauthzconfigs/status")
	sum := 0
	for _, n := range wrote {
		sum += n
	}
	if own == 0 || sum != 4*few {
		t.Errorf("%d writes to the configuration, and to servers: %v", own, wrote)
	}
	if diff := cmp.Diff(wrote, written(floor)); diff != "" {
		t.Errorf("writes to %d servers whose policies changed, Freehold's -, the floor's +:\n%s", few, diff)
	}
	for _, s := range []Step{ours, floor} {
		if s.Values["runner writes"] != 2*few {
			t.Errorf("%v writes of the runners under %s", s.Values["runner writes"], s.Subject)
		}
	}
}
