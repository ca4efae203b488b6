package runner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

func TestWhatWasSeenOfACandidateIsReportedWhileItIsOne(t *testing.T) {
	x := newSuccessor(t)
	candidate := func() *v1alpha1.CandidateStatus {
		live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
		x.Read(live)
		return live.Status.Runtime.Candidate
	}
	x.plan(x.incumbent, x.rolls("Candidate"))
	x.pass()
	x.fare(workload.Slot2, "echo:2", kit.Runs(), 1)
	reports := func(p *steps) int {
		mark := p.sent.Mark()
		p.pass()
		p.pass()
		return len(p.sent.Since(mark).Writes())
	}
	lost := v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{strings.Repeat("é", 200)}, Added: 2}
	x.runner.LearnCandidate(lost)
	if n := reports(x.steps); n != 0 || candidate() != nil {
		t.Errorf("before its check %d reports, and %v", n, candidate())
	}
	x.plan(x.incumbent, x.rolls("Check"))
	if n := reports(x.steps); n != 1 {
		t.Errorf("%d reports", n)
	}
	want := lost
	want.Hash, want.LostTools = x.candidate.Hash, []string{strings.Repeat("é", 128)}
	if diff := cmp.Diff(&want, candidate()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	replica := x.server.steps(x.runner.Run)
	replica.runner.LearnCandidate(lost)
	if n := reports(replica) + reports(x.steps); n != 0 {
		t.Errorf("a replica that saw the same reports %d times", n)
	}
	replica.runner.LearnCandidate(v1alpha1.CandidateStatus{Answers: true, Added: 3})
	if n := reports(replica) + reports(x.steps) + reports(replica); n != 1 || candidate().Lost != 0 {
		t.Errorf("a tool that came back is %d reports, %v", n, candidate())
	}
	x.fare(workload.Slot2, "echo:2", kit.NeverReady(), 0)
	if n := reports(x.steps) + reports(replica); n != 1 || candidate() != nil {
		t.Errorf("of pods that start again %d reports, and %v", n, candidate())
	}
	x.fare(workload.Slot2, "echo:2", kit.Runs(), 1)
	if n := reports(x.steps) + reports(replica); n != 0 || candidate() != nil || x.pass().Start.Dropped != 1 {
		t.Errorf("of pods that have started, and were not asked, %d reports, and %v", n, candidate())
	}
	x.runner.LearnCandidate(lost)
	if n := reports(x.steps) + reports(replica); n != 1 || candidate() == nil {
		t.Errorf("of pods that were asked again %d reports, and %v", n, candidate())
	}
	x.runner.LearnCandidate(v1alpha1.CandidateStatus{Answers: true, Reason: v1alpha1.ReasonNotAsked})
	if n := reports(x.steps); n != 1 || candidate().Lost != 1 {
		t.Errorf("while what gets the calls is silent %d reports, and of what was lost %v", n, candidate())
	}
	x.switches(replica, reports)
}

// switches has the candidate get the calls: what was seen of it goes with what it answers then.
func (x *successor) switches(replica *steps, reports func(*steps) int) {
	x.Helper()
	live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	x.plan(x.candidate, x.rolls("Acknowledge"))
	if n := reports(x.steps) + reports(replica); n != 0 {
		x.Errorf("after the switch, before it was asked, %d reports", n)
	}
	x.runner.Learn(backend.Facts{Answers: kit.Answers})
	n := reports(x.steps) + reports(replica)
	if x.Read(live); n != 1 || live.Status.Runtime.Candidate != nil {
		x.Errorf("after the switch %d reports, and %v", n, live.Status.Runtime.Candidate)
	}
}

// A rollout that was given up and begins again is checked anew, also by a runner that did not see its end.
func TestWhatWasSeenOfACandidateIsOfOneRollout(t *testing.T) {
	x := newSuccessor(t)
	x.plan(x.incumbent, x.rolls("Check"))
	x.pass()
	x.fare(workload.Slot2, "echo:2", kit.Runs(), 1)
	x.runner.LearnCandidate(v1alpha1.CandidateStatus{Answers: true})
	x.pass()
	live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	for _, step := range []string{"Candidate", "Check"} {
		again := x.rolls(step)
		again.ID = "2"
		x.plan(x.incumbent, again)
		x.pass()
		x.steps = x.server.steps(x.runner.Run) // a proxy that started since
		x.pass()
		if x.Read(live); live.Status.Runtime.Candidate != nil {
			t.Errorf("%s: of an earlier rollout it says %v", step, live.Status.Runtime.Candidate)
		}
	}
}
