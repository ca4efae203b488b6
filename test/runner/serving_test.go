package runner

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// Runners of content that does not get the calls ask what gets them. While older ones may report that, they report it
// first once it has answered them, and fares otherwise than is reported.
func TestWhatServesIsToldOfByRunnersOfOtherContent(t *testing.T) {
	x := newSuccessor(t)
	yes, no := kit.Answers, conditions.False(v1alpha1.ReasonNotAnswering, "it hangs")
	of := x.incumbent.Hash
	x.plan(x.incumbent, x.rolls("Proxies"))
	replica := x.server.steps(x.runner.Run)
	rests := func() {
		t.Helper()
		mark, replicas := x.sent.Mark(), replica.sent.Mark()
		for range 2 {
			x.pass()
			replica.pass()
		}
		if writes := append(x.sent.Since(mark).Writes(), replica.sent.Since(replicas).Writes()...); len(writes) != 0 {
			t.Errorf("at rest they write %s", writes)
		}
	}
	x.fare(workload.Slot1, "echo:1", kit.Runs(), 1)
	report := x.pass()
	if s := report.Serving; s.Start.Content != of || s.Backend.Port != x.incumbent.Port || s.Backend.Image != "echo:1" ||
		report.Start != (backend.Start{}) {
		t.Errorf("of what serves it says %+v", report)
	}
	for _, p := range []*steps{x.steps, replica} {
		p.runner.Learn(backend.Facts{Content: of, Answers: no})
	}
	rests() // they never had an answer, and may be the ones that nothing reaches
	for _, p := range []*steps{x.steps, replica} {
		p.runner.Learn(backend.Facts{Content: of, Answers: yes})
	}
	rests()
	x.runner.Learn(backend.Facts{Content: of})
	replica.runner.Learn(backend.Facts{Content: of})
	rests()
	x.runner.Learn(backend.Facts{Content: of, Answers: no})
	rests() // proxies of before may serve, and know better
	x.AsController().ApplyStatus(string(contract.MCPServerConditions),
		"apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nstatus: {servedGeneration: 2}\n")
	x.pass()
	x.told(2, of, no)
	replica.runner.Learn(backend.Facts{Content: of, Answers: no})
	rests()
	x.plan(x.incumbent, x.rolls("Candidate"))
	x.pass()
	x.told(2, of, no)
	if report := x.pass(); report.Serving.Start.Content != of {
		t.Errorf("beside its candidate it asks %+v", report.Serving)
	}
	replica.pass()
	rests()
	replica.runner.Learn(backend.Facts{Content: of, Answers: yes})
	replica.pass()
	x.told(2, of, yes)
	rests()
	x.runner.Learn(backend.Facts{Content: of, Answers: yes})
	rests()
}

// told says what is reported of what serves.
func (x *successor) told(generation int64, of string, want conditions.Finding) {
	x.Helper()
	live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	x.Read(live)
	c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionBackendAnswers)
	if r := live.Status.Runtime; r.Generation != generation || r.BackendHash != of || c == nil || !want.SaidBy(c) {
		x.Errorf("runtime is %+v, BackendAnswers %+v", *r, c)
	}
}
