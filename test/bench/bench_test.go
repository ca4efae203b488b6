package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/test/kit"
)

// few is enough to see what grows with servers.
const few = 2

func TestMain(m *testing.M) {
	runSubjectIfAsked() // a subject is this program, started again
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// What the scenarios count, for two servers on one control plane. How long anything takes is not judged here.
func TestScenariosMeasureWhatTheySay(t *testing.T) {
	b := &bench{settings: settings{Workers: few, QPS: -1, PriorityQueue: true}}
	ctx, cancel := context.WithTimeout(t.Context(), 4*kit.Patience)
	defer cancel()
	w, err := newWorld(ctx, t.TempDir())
	defer func() { must(t, w.stop()) }()
	must(t, err)
	w.calm = time.Second
	must(t, w.allow(ctx, rights()))
	must(t, w.extend(ctx))
	for _, name := range []string{"reference", "floor", freehold} {
		p, err := b.subject(ctx, w, name)
		must(t, err)
		must(t, b.bringUp(ctx, w, p, name, few))
		if name != "reference" {
			must(t, b.instead(ctx, w, p, name, func(p *subject) error { return b.live(ctx, w, p, name, few) }))
			w.from += few
		}
		must(t, p.stop())
		if name == "reference" {
			must(t, w.clear(ctx, few))
		}
	}
	b.report.judge()
	t.Run("the floor writes what Freehold writes", func(t *testing.T) {
		ours, floor := written(find(t, b, "converge", "", freehold)), written(find(t, b, "converge", "", "floor"))
		if diff := cmp.Diff(ours, floor); diff != "" {
			t.Errorf("writes to bring up %d servers, Freehold's -, the floor's +:\n%s", few, diff)
		}
	})
	t.Run("the reference applies nothing", func(t *testing.T) {
		old := written(find(t, b, "converge", "", "reference"))
		for kind, times := range old {
			if strings.HasPrefix(kind, "apply") {
				t.Errorf("%d × %s", times, kind)
			}
		}
		if old["update mcpservers/status"] < 2*few || old["create deployments"] < few || old["patch mcpservers"] < few {
			t.Errorf("it did not do its work: %v", old)
		}
	})
	t.Run("the steps of a life are counted", func(t *testing.T) { ofLife(t, b) })
	t.Run("the floor changes and lets go with writes that Freehold sends too", func(t *testing.T) { least(t, b) })
	t.Run("what foreign writers lose is counted", func(t *testing.T) { losses(ctx, t, b, w) })
	t.Run("the floor of a change writes what Freehold writes", func(t *testing.T) { ofAConfig(ctx, t, b, w) })
	t.Run("the report is whole", func(t *testing.T) { whole(t, b) })
}

// ofLife holds the steps of a life to what Freehold sends in them.
func ofLife(t *testing.T, b *bench) {
	replicas, restart := find(t, b, "life", "replicas", freehold), find(t, b, "life", "restart", freehold)
	sum := replicas.Counts.sum()
	if n := sum.Requests - sum.Conflicts - sum.Refused; n == 0 || n > 3*few || replicas.Values["podsRolled"] != 0 {
		t.Errorf("%d requests for other replicas, %v pods rolled:\n%v", n, replicas.Values["podsRolled"], replicas.Counts)
	}
	if n := restart.Counts.writes().sum().Requests; n != 0 || restart.Counts.sum().Requests == 0 {
		t.Errorf("%d writes after a restart:\n%v", n, restart.Counts)
	}
	if n := written(find(t, b, "life", "image", freehold))["apply deployments"]; n != few {
		t.Errorf("%d Deployments applied for %d other images", n, few)
	}
	if n := written(find(t, b, "life", "delete", freehold))["delete statefulsets"]; n != few {
		t.Errorf("%d backends deleted for %d servers", n, few)
	}
}

// least holds the floor of a life to what Freehold sends.
func least(t *testing.T, b *bench) {
	for step, most := range map[string]string{"image": "apply deployments", "delete": "apply mcpservers"} {
		ours, floor := written(find(t, b, "life", step, freehold)), written(find(t, b, "life", step, "floor"))
		if floor[most] != few {
			t.Errorf("%s: %d × %s for %d servers", step, floor[most], most, few)
		}
		for kind, n := range floor {
			if n > ours[kind] {
				t.Errorf("%s: %d × %s by the floor, %d by Freehold", step, n, kind, ours[kind])
			}
		}
	}
}

// whole reads a report back, and looks for what a run of every scenario cannot be without.
func whole(t *testing.T, b *bench) {
	dir := t.TempDir()
	must(t, b.report.write(dir))
	text, err := os.ReadFile(filepath.Join(dir, "latest.json"))
	must(t, err)
	var again Report
	must(t, json.Unmarshal(text, &again))
	if diff := cmp.Diff(b.report.Steps, again.Steps); diff != "" {
		t.Errorf("the report changes on its way to a file:\n%s", diff)
	}
	for _, s := range again.Steps {
		if s.Step != "restart" && (s.Seconds <= 0 || s.CPU["kube-apiserver"] < 0 || s.Counts.sum().Sent == 0 ||
			s.Counts.sum().Received == 0) {
			t.Errorf("a step without a figure: %+v", s)
		}
	}
}

func TestTargetsAreJudgedByMedians(t *testing.T) {
	step := func(subject string, seconds float64) Step {
		return Step{Scenario: "converge", Subject: subject, Servers: 500, Seconds: seconds}
	}
	r := Report{Steps: []Step{
		step(freehold, 99), step(freehold, 13), step(freehold, 12), step("floor", 10),
		step("floor", 5), step("floor", 11),
	}}
	r.judge()
	found := map[string]Target{}
	for _, target := range r.Targets {
		found[target.What] = target
	}
	want := map[string]Target{
		"converge 500: seconds":  {What: "converge 500: seconds", Goal: 25, Measured: 13, Met: true},
		"converge 500: requests": {What: "converge 500: requests", Goal: 6000, Met: true},
		"converge 500: seconds, times the floor": {
			What: "converge 500: seconds, times the floor", Goal: 1.3, Measured: 1.3,
			Met: true,
		},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("what is judged of three rounds:\n%s", diff)
	}
	r.Targets, r.Steps[3].Seconds = nil, 9
	r.judge()
	if i := slices.IndexFunc(r.Targets, func(g Target) bool { return !g.Met }); i < 0 ||
		!strings.Contains(r.String(), "NO") {
		t.Errorf("13 seconds over a floor of 9 are not seen as too many:\n%s", r.String())
	}
}

// written is what a step wrote, by verb and resource. What was refused has written nothing, and
// how often that happens hangs on who came first: a pass deletes again what its cache still has.
func written(s Step) map[string]int {
	found := map[string]int{}
	for _, c := range s.Counts.writes() {
		if n := c.Requests - c.Conflicts - c.Refused; n > 0 {
			found[c.Verb+" "+c.Resource] = n
		}
	}
	return found
}

func find(t *testing.T, b *bench, scenario, step, subject string) Step {
	t.Helper()
	i := slices.IndexFunc(b.report.Steps,
		func(s Step) bool { return s.Scenario == scenario && s.Step == step && s.Subject == subject })
	if i < 0 {
		t.Fatalf("nothing was measured of %s %s by %s", scenario, step, subject)
	}
	return b.report.Steps[i]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
