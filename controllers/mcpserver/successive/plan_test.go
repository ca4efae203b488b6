package successive

import (
	"fmt"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// 5: paused for three deadlines.
func TestMake_PauseKeepsWhatIsLeftOfADeadline(t *testing.T) {
	s := at(v1alpha1.StepCandidate).edit(later(4*time.Minute), paused)
	if plan := s.pass(); plan.Wake != 0 || plan.Verdict.State != Paused {
		t.Errorf("paused: %+v", plan.Verdict)
	}
	s.edit(later(30*time.Minute), passes)
	if left := s.step().Remaining; left == nil || left.Duration != 6*time.Minute {
		t.Errorf("left: %v", left)
	}
	s.want.Spec.Paused = false
	if plan := s.pass(); plan.Wake != 6*time.Minute || plan.Verdict.State != Moving {
		t.Errorf("resumed: %+v", plan)
	}
	if plan := s.edit(later(6 * time.Minute)).pass(); plan.Verdict.State != Failed {
		t.Errorf("at its deadline: %+v", plan.Verdict)
	}
}

// 27: the deadline of a candidate does not run while a quota refuses its pods.
func TestMake_QuotaKeepsWhatIsLeftOfADeadline(t *testing.T) {
	quota := conditions.False(v1alpha1.ReasonPodRefused, "exceeded quota")
	refused := Slot{Stands: true, Content: of("b", 2), Quota: &quota}
	s := at(v1alpha1.StepCandidate).edit(later(4*time.Minute), slot(2, refused))
	if plan := s.pass(); plan.Wake != time.Minute+time.Second {
		t.Errorf("Ready may say why in %s", plan.Wake)
	}
	plan := s.edit(later(time.Hour)).pass()
	if step := s.step(); step.Reason != v1alpha1.ReasonPodRefused || step.Message != quota.Message || plan.Wake != 0 {
		t.Errorf("refused: %+v, wakes in %s", step, plan.Wake)
	}
	s.edit(slot(2, Slot{Stands: true, Content: of("b", 2)}))
	if plan := s.pass(); plan.Wake != 6*time.Minute {
		t.Errorf("freed: %+v", plan)
	}
	if got := text(s.edit(slot(2, up(of("b", 2)))).pass()); got != moving+"Check NotAsked" {
		t.Error(got)
	}
}

// Each attempt has an id of its own, and equal ones have equal ids.
func TestMake_IDs(t *testing.T) {
	ids := map[string]bool{}
	for _, s := range []*scene{
		asksFor("b", 2), asksFor("b", 3), asksFor("b", 2).edit(lasted(v1alpha1.RolloutCancelled, "b", 2)),
		asksFor("b", 2).edit(func(s *scene) { s.want.UID = "other" }),
	} {
		id := s.edit().pass().Rollout.ID
		if ids[id] {
			t.Errorf("%s twice", id)
		}
		ids[id] = true
	}
	s := at(v1alpha1.StepDrain)
	ids = map[string]bool{s.Rollout.ID: true}
	for _, letter := range []string{"a", "b", "a", "b"} { // back and forth
		s.want.Content = of(letter, s.want.Content.Generation+1)
		plan := s.pass()
		if ids[plan.Rollout.ID] {
			t.Errorf("%s twice: %s", plan.Rollout.ID, text(plan))
		}
		ids[plan.Rollout.ID] = true
	}
	one, two := asksFor("b", 2).pass(), asksFor("b", 2).edit(later(time.Hour)).pass()
	if one.Rollout.ID != two.Rollout.ID {
		t.Error("two passes over one status make two ids")
	}
}

// The switch is one write.
func TestMake_SwitchIsOneWrite(t *testing.T) {
	s := at(v1alpha1.StepCheck).edit(checked(0))
	plan := s.pass()
	drain, acknowledge := plan.Rollout.Steps[drainStep], plan.Rollout.Steps[drainStep-1]
	got := fmt.Sprintln(plan.Active.Slot, plan.Active.Since.Time.Equal(now), plan.Rollout.From.Slot, acknowledge.State,
		acknowledge.Deadline.Sub(now), drain.State, drain.Deadline.Sub(now))
	if want := "2 true 1 Active 1m0s Waiting 24h0m0s\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
