package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ofAConfig holds the floor of a changed configuration to what Freehold writes to each
// server; the configuration's own status is beside it.
func ofAConfig(ctx context.Context, t *testing.T, b *bench, w *world) {
	for _, c := range changes[:2] {
		b.settings.Share = c.share
		p, err := b.subject(ctx, w, freehold)
		must(t, err)
		must(t, b.retake(ctx, w, p, c, few))
		must(t, p.stop())
		must(t, w.clear(ctx, few))
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
