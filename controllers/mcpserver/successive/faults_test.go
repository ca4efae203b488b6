package successive

import (
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// after makes a plan and spoils it.
func after(spoil func(before Status, plan *Plan)) rules {
	return rules{make: func(s Status, w Wanted, o Observed, now time.Time) Plan {
		plan := Make(s, w, o, now)
		spoil(s, &plan)
		return plan
	}}
}

// before makes a plan of something else than is so.
func before(spoil func(*Status, *Wanted, *Observed)) rules {
	return rules{make: func(s Status, w Wanted, o Observed, now time.Time) Plan {
		s.Rollout = s.Rollout.DeepCopy()
		spoil(&s, &w, &o)
		return Make(s, w, o, now)
	}}
}

func within(s Status, name string) bool { return s.step() != nil && s.step().Name == name }

// saying are answers as somebody takes them who takes what is unknown for yes.
func saying(s Status, w Wanted, answers []Answer) (all []Answer) {
	for _, a := range answers {
		if a.Routing == nil && s.Rollout != nil {
			a.Routing = &runconfig.Routing{ServerUID: string(w.UID), Active: &runconfig.RoutedContent{
				Slot: s.Rollout.Target.Slot, Hash: s.Rollout.Target.Hash, Generation: s.Rollout.Target.Generation,
			}}
			if s.Rollout.From != nil {
				a.Routing.Contents = []runconfig.ContentUse{{Hash: s.Rollout.From.Hash}}
			}
		}
		all = append(all, a)
	}
	return all
}

// faults are what passes may do wrong, and what the lives say of it.
var faults = map[string]struct {
	broken rules
	finds  string
}{
	"a step has no deadline": {after(func(_ Status, plan *Plan) {
		if step := plan.step(); step != nil && step.Name == v1alpha1.StepCandidate {
			step.Deadline = nil
		}
	}), "Candidate goes on"},
	"what is unknown of a proxy is taken for yes": {before(func(s *Status, w *Wanted, o *Observed) {
		o.Proxies = saying(*s, *w, o.Proxies)
	}), "ends a session"},
	"teardown before the acknowledgement": {after(func(before Status, plan *Plan) {
		if within(before, v1alpha1.StepAcknowledge) && plan.Rollout != nil {
			plan.Rollout = nil
			plan.Empty = append(plan.Empty, other(plan.Active.Slot))
		}
	}), "deletes what a proxy calls"},
	"the deadline of sessions is left to a second write": {after(func(before Status, plan *Plan) {
		if before.Active != nil && plan.Active.Slot != before.Active.Slot && plan.Rollout != nil {
			plan.Rollout.Steps[drainStep].Deadline = nil
		}
	}), "without saying how long"},
	"the pointer is left out at rest": {after(func(_ Status, plan *Plan) {
		if plan.Rollout == nil {
			plan.Active = nil
		}
	}), "no content is active"},
	"the pointer is computed to none while content waits for its slot": {after(func(_ Status, plan *Plan) {
		if plan.Verdict.State == WaitsForSlot {
			plan.Active = nil
		}
	}), "no content is active"},
	"only content is deleted that was active once": {after(func(_ Status, plan *Plan) {
		if plan.Last != nil && plan.Last.State != v1alpha1.RolloutSucceeded {
			plan.Empty = nil
		}
	}), "leaves content"},
	"all content is deleted that was active once": {after(func(_ Status, plan *Plan) {
		if plan.Rollout != nil && plan.switched() {
			plan.Empty = append(plan.Empty[:0:0], other(plan.Active.Slot))
		}
	}), "deletes what a proxy calls"},
	"the switch does not ask whether pods are ready": {before(func(s *Status, _ *Wanted, o *Observed) {
		if within(*s, v1alpha1.StepCheck) {
			slots := o.Slots
			o.Slots = map[workload.Slot]Slot{}
			for slot, there := range slots {
				there.Ready, there.RolledOut = 9, true
				o.Slots[slot] = there
			}
		}
	}), "what is not ready"},
	"the switch does not ask whether the content answers": {before(func(s *Status, _ *Wanted, o *Observed) {
		if within(*s, v1alpha1.StepCheck) && o.Candidate == nil {
			o.Candidate = &v1alpha1.CandidateStatus{Hash: s.Rollout.Target.Hash, Answers: true}
		}
	}), "what was not checked"},
	"a hold is ignored": {before(func(_ *Status, w *Wanted, _ *Observed) {
		if w.Spec != nil {
			w.Spec = w.Spec.DeepCopy()
			w.Spec.Hold = v1alpha1.HoldNever
		}
	}), "what is held"},
	"what is left of a deadline is forgotten in a pause": {after(func(_ Status, plan *Plan) {
		if step := plan.step(); step != nil {
			step.Remaining = nil
		}
	}), "goes on for"},
	"a pause starts a deadline anew": {before(func(s *Status, w *Wanted, _ *Observed) {
		if step := s.step(); step != nil && step.Remaining != nil {
			step.Remaining.Duration = w.Deadline
		}
	}), "goes on for"},
	"time runs in a pause": {after(func(before Status, plan *Plan) {
		if step, had := plan.step(), before.step(); step != nil && step.Remaining != nil && had != nil {
			step.Deadline, step.Remaining = had.Deadline, nil
		}
	}), "after its deadline has run for"},
	"a slot is emptied whose sessions a plan before promised time": {after(func(before Status, plan *Plan) {
		cancels := plan.Last != nil && plan.Last.State == v1alpha1.RolloutCancelled
		if before.Rollout != nil && cancels && (before.Last == nil || before.Last.ID != plan.Last.ID) {
			plan.Rollout = nil
			plan.Empty = append(plan.Empty[:0:0], other(plan.Active.Slot))
		}
	}), "ends a session"},
	"what stands beside the active content and no plan explains is emptied": {after(func(before Status, plan *Plan) {
		if before.Rollout == nil && plan.Rollout != nil && plan.switched() {
			plan.Rollout = nil
			plan.Empty = append(plan.Empty[:0:0], other(plan.Active.Slot))
		}
	}), "ends a session"},
	"a write has no precondition":     {rules{make: Make, overwrites: true}, "the active content falls"},
	"a pass acts on a stale decision": {rules{make: Make, actsFirst: true}, "deletes what"},
}

// Lives find each of these.
func TestMake_PlantedFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(howMany(t)) {
				err := newLife(seed, fault.broken).live(150)
				if err != nil && strings.Contains(err.Error(), fault.finds) {
					t.Logf("life %d: %v", seed, err)
					return
				}
			}
			t.Error("no life finds it")
		})
	}
}
