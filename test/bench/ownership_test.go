package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/test/kit"
)

func TestALostFieldIsCountedOnce(t *testing.T) {
	at := target{name: "echo"}
	says := func(more ...string) map[string]string {
		fields := map[string]string{".a": "1", ".b": "1"}
		for i := 0; i < len(more); i += 2 {
			fields[more[i]] = more[i+1]
		}
		return fields
	}
	for name, tc := range map[string]struct {
		then func(*lossCount)
		lost map[string]int
	}{
		"it stands":         {func(l *lossCount) { l.look(at, says()) }, nil},
		"others add theirs": {func(l *lossCount) { l.look(at, says(".c", "1")) }, nil},
		"its owner writes it again": {func(l *lossCount) {
			l.wrote("team", at, says(".a", "2"))
			l.look(at, says(".a", "2"))
		}, nil},
		"its owner gives it up": {func(l *lossCount) {
			l.wrote("team", at, map[string]string{".a": "1"})
			l.look(at, map[string]string{".a": "1"})
		}, nil},
		"one is gone": {
			func(l *lossCount) { l.look(at, map[string]string{".a": "1"}) },
			map[string]int{"team": 1},
		},
		"both are different": {
			func(l *lossCount) { l.look(at, says(".a", "0", ".b", "0")) },
			map[string]int{"team": 2},
		},
		"it is back although let go": {func(l *lossCount) {
			l.wrote("team", at, map[string]string{".a": "1"})
			l.look(at, says())
		}, map[string]int{"team": 1}},
		"it is gone at two looks": {func(l *lossCount) {
			l.look(at, map[string]string{".a": "1"})
			l.look(at, map[string]string{".a": "1"})
		}, map[string]int{"team": 1}},
		"it is lost, again and again": {
			func(l *lossCount) { l.look(at, nil); l.wrote("team", at, says()); l.look(at, nil) },
			map[string]int{"team": 4},
		},
		"another's is lost": {func(l *lossCount) {
			l.wrote("mesh", at, map[string]string{".c": "1"})
			l.look(at, says())
		}, map[string]int{"mesh": 1}},
		"another object is not this one": {func(l *lossCount) { l.look(target{name: "other"}, nil) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLossCount()
			l.wrote("team", at, says())
			tc.then(l)
			if tc.lost == nil {
				tc.lost = map[string]int{}
			}
			if diff := cmp.Diff(tc.lost, l.lost); diff != "" {
				t.Errorf("lost fields by writer:\n%s", diff)
			}
		})
	}
}

func TestFieldsAreNamedAsServerSideApplyTellsThemApart(t *testing.T) {
	object := map[string]any{
		"metadata": map[string]any{"finalizers": []any{"b", "a"}},
		"status": map[string]any{
			"audits":     int64(3),
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		},
		"spec": map[string]any{
			"containers": []any{map[string]any{"name": "mesh", "args": []any{"x"}}},
			"rules":      []any{map[string]any{"verb": "get"}},
		},
	}
	want := map[string]string{
		".metadata.finalizers[=a]": "there", ".metadata.finalizers[=b]": "there",
		".status.audits": "3", ".status.conditions[Ready].type": "Ready", ".status.conditions[Ready].status": "True",
		".spec.containers[mesh].name": "mesh", ".spec.containers[mesh].args[=x]": "there", ".spec.rules[0].verb": "get",
	}
	if diff := cmp.Diff(want, flat(object)); diff != "" {
		t.Error(diff)
	}
}

func TestASeedDrawsTheSameWrites(t *testing.T) {
	order := func(seed uint64) (names []string) {
		for _, s := range scores(seed, 3, 100) {
			for _, p := range s.acts {
				names = append(names, p.writer.name, p.writer.of("x"+string(rune('0'+p.server))))
			}
		}
		return names
	}
	if first := order(1); !slices.Equal(first, order(1)) || slices.Equal(first, order(2)) {
		t.Error("the order of writes does not come from the seed")
	}
	drawn := strings.Join(order(1), " ")
	for _, h := range slices.Concat(onServers(), onChildren()) {
		if !strings.Contains(drawn, h.name) {
			t.Errorf("%s does not write", h.name)
		}
	}
}

// losses makes a few writes beside the operator and beside a reference that cannot but lose the sidecar, when it writes
// the Deployment of another image, and the number that it does not know, when it writes the status.
func losses(ctx context.Context, t *testing.T, b *bench, w *world) {
	writers := map[string]writer{}
	for _, h := range slices.Concat(onServers(), onChildren()) {
		writers[h.name] = h
	}
	turn := 1
	acts := func(names ...string) (acts []act) {
		for i, name := range names {
			turn++
			acts = append(acts, act{writers[name], i % few, turn})
		}
		return acts
	}
	scores := []score{
		{"birth", acts(labeller, auditor, "archiver", "kubectl-edit")},
		{"life", acts("mesh", "mesh", auditor, auditor, user, user, "finance", "horizontal-pod-autoscaler", "archiver",
			"backup", "kubectl-patch", "dns")},
	}
	for _, name := range []string{"reference-update", freehold} {
		p, err := b.subject(ctx, w, name)
		must(t, err)
		must(t, b.interleave(ctx, w, p, name, few, scores))
		must(t, p.stop())
		must(t, w.clear(ctx, few))
	}
	life := find(t, b, "ownership", "life", "reference-update").Values
	if life["lost mesh"] < few || life["lost "+auditor] < few || life["lost"] < life["lost mesh"]+life["lost "+auditor] ||
		life["writes"] != 12 {
		t.Errorf("beside the reference: %v", life)
	}
	for _, step := range []string{"birth", "life"} {
		if ours := find(t, b, "ownership", step, freehold); ours.Values["lost"] != 0 ||
			ours.Counts.sent("update")+ours.Counts.sent("patch") != 0 {
			t.Errorf("beside Freehold in %s: %v\n%v", step, ours.Values, ours.Counts)
		}
	}
	if text := b.report.String(); !strings.Contains(text, "lost beside reference-update") {
		t.Errorf("the report does not say it:\n%s", text)
	}
}

// Nobody but the method writes, so that what it sends can be counted to the last request, for each object.
func TestMethodsSendWhatTheyMust(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	plane, err := kit.Start(ctx, kit.Alone())
	defer func() { must(t, plane.Stop()) }()
	must(t, err)
	b := &bench{}
	must(t, b.costs(ctx, plane, few, 0))
	want := map[string]map[string]float64{
		"rest":    {freehold: 0, "apply": passes, "patch": 0, "update": 0},
		"touched": {freehold: 0, "apply": passes, "patch": 0, "update": 0},
		"changed": {freehold: 1, "apply": passes, "patch": 1, "update": 1},
	}
	sent := map[string]map[string]float64{"rest": {}, "touched": {}, "changed": {}}
	for _, s := range b.report.steps("cost") {
		sent[s.Step][s.Subject] = float64(s.Counts.sum().Requests) / s.Values["objects"]
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("requests of an object in %d passes:\n%s", passes, diff)
	}
}
