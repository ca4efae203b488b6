package successive

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

func wants(letter string, generation int64) func(*scene) {
	return func(s *scene) { s.want.Content = of(letter, generation) }
}

func loses(s *scene)    { s.Rollout, s.Last = nil, nil }
func inPlace(s *scene)  { s.want.Successive = false }
func halted(s *scene)   { s.want.Halted = true }
func paused(s *scene)   { s.want.Spec.Paused = true }
func replaces(s *scene) { s.want.Spec.Strategy = v1alpha1.StrategyReplace }
func always(s *scene)   { s.want.Spec.Hold = v1alpha1.HoldAlways }

func slot(n workload.Slot, there Slot) func(*scene) {
	return func(s *scene) { s.seen.Slots[n] = there }
}

func later(d time.Duration) func(*scene) { return func(s *scene) { s.now = s.now.Add(d) } }

func passes(s *scene) { s.pass() }

func checked(lost int32) func(*scene) {
	return func(s *scene) {
		s.seen.Candidate = &v1alpha1.CandidateStatus{Hash: s.Rollout.Target.Hash, Answers: true, Lost: lost}
	}
}

// uncompared is what the runner says where the candidate answers, and what is active does not.
func uncompared(s *scene) {
	checked(0)(s)
	s.seen.Candidate.Reason = v1alpha1.ReasonNotAsked
}

func unanswered(s *scene) { s.seen.ProxiesUnanswered = true }

func approves(hash string) func(*scene) { return func(s *scene) { s.want.Spec.Approved = hash } }

func lasted(state v1alpha1.RolloutState, letter string, generation int64) func(*scene) {
	return func(s *scene) {
		s.Last = &v1alpha1.RolloutOutcome{
			ID: "x", State: state, Hash: of(letter, 1).Hash, Generation: generation, Attempt: 1,
			At: metav1.NewTime(now),
		}
	}
}

// What texts of plans begin with.
const (
	moving = "Moving; 1:a1; to 2:b2 from 1:a1 "
	held   = "Held; 1:a1; to 2:b2 from 1:a1 "
	ending = "Ending; 2:b2; to 2:b2 from 1:a1 "
	failed = "Failed; 1:a1; Failed b2#1 "
)

// Numbers are those of the thirty scenarios.
func TestMake_Steps(t *testing.T) {
	pull := conditions.False(v1alpha1.ReasonImagePull, "no such image")
	crash := conditions.False(v1alpha1.ReasonCrashLoop, "it ends")
	node := conditions.False(v1alpha1.ReasonUnschedulable, "no node")
	fails := func(f conditions.Finding) Slot { return Slot{Stands: true, Content: of("b", 2), Failure: &f} }
	taken := conditions.False(v1alpha1.ReasonNameTaken, "a Service")
	root := conditions.False(v1alpha1.ReasonMustRunAsRoot, "it runs as root")
	quota := conditions.False(v1alpha1.ReasonPodRefused, "exceeded quota")
	refused := fails(crash)
	refused.Quota = &quota
	none := slot(1, Slot{Stands: true, Content: of("a", 1)})
	few := up(of("b", 2))
	few.Ready = 1
	leaving := up(of("b", 2))
	leaving.Terminating = true
	run(t, map[string]row{
		"begins":  {asksFor("b", 2), moving + "Candidate CandidateNotReady"},
		"proxies": {at(v1alpha1.StepProxies), moving + "Proxies ProxiesNotAvailable"},
		"proxies for long": {
			at(v1alpha1.StepProxies).edit(later(time.Hour)), failed + "ProxiesNotAvailable; empty [2]",
		},
		"proxies that nothing answers": {
			at(v1alpha1.StepProxies).edit(unanswered, later(119*time.Second)), moving + "Proxies ProxiesNotAvailable",
		},
		"proxies that nothing answers for a fifth of the time": {
			at(v1alpha1.StepProxies).edit(unanswered, later(2*time.Minute)), moving + "Candidate CandidateNotReady",
		},
		"one pod of two": {
			at(v1alpha1.StepCandidate).edit(slot(2, few)), moving + "Candidate CandidateNotReady",
		},
		"no pods for long": {
			at(v1alpha1.StepCandidate).edit(later(10 * time.Minute)),
			failed + "CandidateNotReady; empty [2]",
		},
		"no image yet": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(pull))), moving + "Candidate ImagePull",
		},
		"no image for a fifth of the time": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(pull)), passes, later(2*time.Minute)),
			failed + "ImagePull; empty [2]",
		},
		"a crash": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(crash)), passes, later(119*time.Second)),
			moving + "Candidate CrashLoop",
		},
		"a crash, and it is ready": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(crash)), passes, slot(2, up(of("b", 2))), later(3*time.Minute)),
			moving + "Check NotAsked",
		},
		"crashes for a fifth of the time": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(crash)), passes, later(2*time.Minute)),
			failed + "CrashLoop; empty [2]",
		},
		"crashes for the first time, late": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(node)), passes, later(8*time.Minute), slot(2, fails(crash))),
			moving + "Candidate CrashLoop",
		},
		"crashes as before a pause": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(crash)), passes, paused, passes, later(time.Hour),
				func(s *scene) { s.want.Spec.Paused = false }), moving + "Candidate CrashLoop",
		},
		"its name is another owner's": {
			at(v1alpha1.StepCandidate).edit(slot(2, Slot{Failure: &taken})), failed + "NameTaken; empty [2]",
		},
		"another owner has a name of the slot": {
			asksFor("b", 2).edit(slot(2, Slot{IsTaken: true})), "WaitsForSlot; 1:a1; empty [2]",
		},
		"crashes, and a quota refuses other pods": {
			at(v1alpha1.StepCandidate).edit(slot(2, refused), passes, later(2*time.Minute)),
			failed + "CrashLoop; empty [2]",
		},
		"runs as root": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(root))), failed + "MustRunAsRoot; empty [2]",
		},
		"no node yet": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(node))), moving + "Candidate Unschedulable",
		},
		"no node for long": {
			at(v1alpha1.StepCandidate).edit(slot(2, fails(node)), later(time.Hour)),
			failed + "Unschedulable; empty [2]",
		},
		"21: the slot is on its way out": {
			at(v1alpha1.StepCandidate).edit(slot(2, leaving)), moving + "Candidate CandidateNotReady",
		},
		"21: attempt 2 waits for it": {
			asksFor("b", 2).edit(slot(2, leaving), lasted(v1alpha1.RolloutCancelled, "b", 2)),
			"WaitsForSlot; 1:a1; Cancelled b2#1; empty [2]",
		},
		"7: not checked": {at(v1alpha1.StepCheck), moving + "Check NotAsked"},
		"7: not checked for long": {
			at(v1alpha1.StepCheck).edit(later(time.Hour)), failed + "NotAsked; empty [2]",
		},
		"checked": {
			at(v1alpha1.StepCheck).edit(checked(0)), ending + "Acknowledge",
		},
		"checked by a runner of other content": {
			at(v1alpha1.StepCheck).edit(checked(0), func(s *scene) { s.seen.Candidate.Hash = "c" }),
			moving + "Check NotAsked",
		},
		"checked, and not ready any more": {
			at(v1alpha1.StepCheck).edit(checked(0), slot(2, few)), moving + "Check CandidateNotReady",
		},
		"26: has lost a tool": {at(v1alpha1.StepCheck).edit(checked(1)), held + "Check LostTools"},
		"25: a tag moves between two of its pods": {
			at(v1alpha1.StepCheck).edit(checked(0), moved), held + "Check ImagesDiffer",
		},
		"25: a tag moves, and that is approved": {
			at(v1alpha1.StepCheck).edit(checked(0), moved, approves("bbbbbbbbbb")), ending + "Acknowledge",
		},
		"25: no tag moves, whatever a node calls the image": {
			at(v1alpha1.StepCheck).edit(checked(0), moved, func(s *scene) { s.want.Pinned = true }), ending + "Acknowledge",
		},
		"25: a tag moves, and nothing is held": {
			at(v1alpha1.StepCheck).edit(checked(0), moved, func(s *scene) { s.want.Spec.Hold = v1alpha1.HoldNever }),
			ending + "Acknowledge",
		},
		"not compared, since what is active does not answer": {
			at(v1alpha1.StepCheck).edit(uncompared), ending + "Acknowledge",
		},
		"not compared, and held always": {
			at(v1alpha1.StepCheck).edit(uncompared, always), held + "Check ApprovalRequired",
		},
		"has lost a tool, and what is active does not answer any more": {
			at(v1alpha1.StepCheck).edit(checked(1), passes, uncompared), held + "Check LostTools",
		},
		"has lost a tool, and is approved while what is active does not answer": {
			at(v1alpha1.StepCheck).edit(checked(1), passes, uncompared, approves("bbbbbbbbbb")), ending + "Acknowledge",
		},
		"6: held for a day": {
			at(v1alpha1.StepCheck).edit(checked(1), passes, later(24*time.Hour)),
			held + "Check LostTools",
		},
		"has lost a tool, and nothing serves for a moment": {
			at(v1alpha1.StepCheck).edit(checked(1), passes, none), held + "Check LostTools",
		},
		"nothing serves any more, and it is held always": {
			at(v1alpha1.StepCheck).edit(checked(0), always, none), held + "Check ApprovalRequired",
		},
		"nothing serves any more, and it is paused": {
			at(v1alpha1.StepCheck).edit(checked(1), paused, none), "Paused; 1:a1; to 2:b2 from 1:a1 Check NotAsked",
		},
		"held always": {
			at(v1alpha1.StepCheck).edit(checked(0), always), held + "Check ApprovalRequired",
		},
		"approved": {
			at(v1alpha1.StepCheck).edit(checked(1), always, approves("bbbbbbbbbb")),
			ending + "Acknowledge",
		},
		"approved too briefly": {
			at(v1alpha1.StepCheck).edit(checked(0), always, approves("bbb")),
			held + "Check ApprovalRequired",
		},
		"other content is approved": {
			at(v1alpha1.StepCheck).edit(checked(0), always, approves(strings.Repeat("c", 64))),
			held + "Check ApprovalRequired",
		},
		"held, and not ready any more for long": {
			at(v1alpha1.StepCheck).edit(checked(1), passes, slot(2, few), passes, later(11*time.Minute)),
			failed + "CandidateNotReady; empty [2]",
		},
		"has failed": {
			asksFor("b", 2).edit(lasted(v1alpha1.RolloutFailed, "b", 2)),
			"Failed; 1:a1; Failed b2#1; empty [2]",
		},
		"has failed, and the proxy has other content": {
			asksFor("b", 3).edit(lasted(v1alpha1.RolloutFailed, "b", 2)),
			"Failed; 1:a1; Failed b2#1; empty [2]",
		},
		"has failed, and other content was asked for since": {
			asksFor("b", 4).edit(lasted(v1alpha1.RolloutFailed, "b", 2), func(s *scene) { s.want.Asked = 4 }),
			"Moving; 1:a1; to 2:b4 from 1:a1 Candidate CandidateNotReady; Failed b2#1",
		},
		"22: a late birth": {
			asksFor("a", 1).edit(slot(2, up(of("b", 2))), lasted(v1alpha1.RolloutSucceeded, "a", 1)),
			"Rest; 1:a1; Succeeded a1#1; empty [2]",
		},
	})
}

func TestMake_AfterTheSwitch(t *testing.T) {
	answers := func(since, session time.Duration) func(*scene) {
		return func(s *scene) { s.answers(s.now.Add(-since), s.now.Add(-session)) }
	}
	unknown := func(s *scene) { s.seen.Proxies = append(s.seen.Proxies, Answer{At: s.now}) }
	busy := func(s *scene) { s.seen.Proxies[0].Routing.Contents[1].InFlight = 1 }
	stranger := func(s *scene) { s.seen.Proxies[0].Routing.ServerUID = "x" }
	incumbent := func(s *scene) { s.seen.Proxies[0].Routing.Active.Hash = "a" }
	elsewhere := func(s *scene) { s.seen.Proxies[0].Routing.Active.Slot = 1 }
	soon := func(s *scene) { s.want.Spec.SessionsEnd = &metav1.Duration{Duration: time.Minute} }
	acknowledge, drain := ending+"Acknowledge NotAcknowledged", ending+"Drain SessionsOpen"
	teardown := "Ending; 2:b2; to 2:b2 Teardown BackendTerminating; empty [1]"
	run(t, map[string]row{
		"no proxy has answered": {at(v1alpha1.StepAcknowledge), acknowledge},
		"10: one has not": {
			at(v1alpha1.StepAcknowledge).edit(answers(time.Hour, 0), unknown), acknowledge,
		},
		"one is of another server": {
			at(v1alpha1.StepAcknowledge).edit(answers(time.Hour, 0), stranger),
			acknowledge,
		},
		"one calls the content before": {
			at(v1alpha1.StepAcknowledge).edit(answers(time.Hour, 0), incumbent),
			acknowledge,
		},
		"one calls the same content in the other slot": {
			at(v1alpha1.StepAcknowledge).edit(answers(time.Hour, 0), elsewhere),
			acknowledge,
		},
		"all have": {
			at(v1alpha1.StepAcknowledge).edit(answers(time.Hour, 0)), drain,
		},
		"one has not for long": {
			at(v1alpha1.StepAcknowledge).edit(later(time.Minute), answers(time.Hour, 0), unknown),
			drain,
		},
		"sessions": {
			at(v1alpha1.StepDrain).edit(later(time.Hour), answers(2*time.Hour, 9*time.Minute)),
			drain,
		},
		"no sessions": {
			at(v1alpha1.StepDrain).edit(later(time.Hour), answers(2*time.Hour, 10*time.Minute)),
			teardown,
		},
		"a proxy that is new": {
			at(v1alpha1.StepDrain).edit(later(time.Hour), answers(9*time.Minute, time.Hour)),
			drain,
		},
		"none can be asked": {
			at(v1alpha1.StepDrain).edit(later(time.Hour), func(s *scene) { s.seen.Proxies = []Answer{{}} }),
			ending + "Drain ProxiesUnreachable",
		},
		"one that is unknown": {
			at(v1alpha1.StepDrain).edit(later(time.Hour), answers(2*time.Hour, time.Hour), unknown),
			drain,
		},
		"a call on its way": {
			at(v1alpha1.StepDrain).edit(later(time.Hour), answers(2*time.Hour, time.Hour), busy),
			drain,
		},
		"an answer of before": {
			at(v1alpha1.StepDrain).edit(later(-time.Hour), answers(2*time.Hour, time.Hour), later(time.Hour)),
			drain,
		},
		"29: sessions at their deadline": {
			at(v1alpha1.StepDrain).edit(later(24*time.Hour), answers(48*time.Hour, 0)), teardown,
		},
		"sessions that are to end soon": {
			at(v1alpha1.StepCheck).edit(soon, checked(0), passes, answers(time.Hour, 0), passes, later(time.Minute)),
			teardown,
		},
		"4: third content waits": {
			at(v1alpha1.StepDrain).edit(wants("c", 3)), "WaitsForDrain; 2:b2; to 2:b2 from 1:a1 Drain SessionsOpen",
		},
		"4: and cuts the oldest": {
			at(v1alpha1.StepDrain).edit(wants("c", 3), passes, later(10*time.Minute)),
			"WaitsForDrain; 2:b2; to 2:b2 Teardown BackendTerminating; empty [1]",
		},
		"third content waits for the place, for as long as that takes": {
			at(v1alpha1.StepTeardown).edit(wants("c", 3), later(24*time.Hour)),
			"WaitsForSlot; 2:b2; to 2:b2 Teardown BackendTerminating; empty [1]",
		},
		"third content waits in a pause": {
			at(v1alpha1.StepDrain).edit(wants("c", 3), paused), "Paused; 2:b2; to 2:b2 from 1:a1 Drain SessionsOpen",
		},
		"4: not while nobody has acknowledged": {
			at(v1alpha1.StepAcknowledge).edit(wants("a", 3)),
			"WaitsForDrain; 2:b2; to 2:b2 from 1:a1 Acknowledge NotAcknowledged",
		},
		"teardown": {at(v1alpha1.StepTeardown), teardown},
		"the end": {
			at(v1alpha1.StepTeardown).edit(slot(1, Slot{})), "Rest; 2:b2; Succeeded b2#1; empty [1]",
		},
		"the end, though another owner has a name of the slot": {
			at(v1alpha1.StepTeardown).edit(slot(1, Slot{IsTaken: true})), "Rest; 2:b2; Succeeded b2#1; empty [1]",
		},
		"4: then the third": {
			at(v1alpha1.StepTeardown).edit(slot(1, Slot{}), wants("c", 3), passes),
			"Moving; 2:b2; to 1:c3 from 2:b2 Candidate CandidateNotReady; Succeeded b2#1",
		},
	})
}

// Way back, while the sessions of the content before end.
func TestMake_BackToTheContentBefore(t *testing.T) {
	back := func() *scene { return at(v1alpha1.StepDrain).edit(wants("a", 3)) }
	few := up(of("a", 1))
	few.Ready = 1
	run(t, map[string]row{
		"16: is checked again": {
			back(), "Moving; 2:b2; to 1:a3 from 2:b2 Check NotAsked; Succeeded b2#1",
		},
		"16: and switched": {
			back().edit(passes, checked(0)),
			"Ending; 1:a3; to 1:a3 from 2:b2 Acknowledge; Succeeded b2#1",
		},
		"17: not before all pods are ready": {
			back().edit(slot(1, few)), "Moving; 2:b2; to 1:a3 from 2:b2 Candidate CandidateNotReady; Succeeded b2#1",
		},
		"and forth: its sessions have the time that they had": {
			back().edit(passes, wants("b", 4)),
			"Ending; 2:b2; to 2:b2 from 1:a3 Drain SessionsOpen; Cancelled a3#1 ContentChanged",
		},
		"fails: so they have": {
			back().edit(passes, later(time.Hour)),
			"Failed; 2:b2; to 2:b2 from 1:a3 Drain; Failed a3#1 NotAsked",
		},
		"has failed, and they have ended": {
			back().edit(passes, later(time.Hour), passes, later(24*time.Hour), passes, slot(1, Slot{})),
			"Failed; 2:b2; Failed a3#1 NotAsked; empty [1]",
		},
	})
	s := at(v1alpha1.StepDrain)
	until := s.Rollout.Steps[drainStep].Deadline.Time
	s.edit(wants("a", 3), later(time.Minute), passes, wants("b", 4), later(time.Minute), passes)
	if got := s.Rollout.Steps[drainStep].Deadline; !got.Time.Equal(until) {
		t.Errorf("sessions may go on until %v, before until %v", got, until)
	}
}

// What a user changes while a rollout is in each step.
func TestMake_ChangesAtEachStep(t *testing.T) {
	ended := func(before, reason string) string { return before + "; Cancelled b2#1 " + reason + "; empty [2]" }
	switched := func(step, rest string) string {
		return map[string]string{
			v1alpha1.StepAcknowledge: ending + "Acknowledge NotAcknowledged",
			v1alpha1.StepDrain:       ending + "Drain SessionsOpen",
			v1alpha1.StepTeardown:    "Ending; 2:b2; to 2:b2 Teardown BackendTerminating; empty [1]",
		}[step] + rest
	}
	for i, step := range names {
		t.Run(step, func(t *testing.T) {
			as := text(at(step).pass())
			rows := map[string]row{
				"other content of the proxy": {at(step).edit(wants("b", 3)), as},
				"13: the plan is lost":       {at(step).edit(loses), lost[step]},
			}
			gone := "Ending; 2:b2; to 2:b2 Teardown BackendTerminating; empty [1]"
			if i <= checkStep {
				rows["15: back"] = row{at(step).edit(wants("a", 3)), ended("Rest; 1:a1", "ContentChanged")}
				rows["19: no pods"] = row{at(step).edit(halted), ended("Rest; 1:a1", "Halted")}
				rows["20: Replace"] = row{at(step).edit(replaces), ended("Rest; 1:b2", "StrategyChanged")}
				if i == checkStep { // it is ready, and stays where it is
					rows["20: Replace"] = row{
						at(step).edit(replaces),
						"Ending; 2:b2; to 2:b2 from 1:a1 Acknowledge NotAcknowledged; Cancelled b2#1 StrategyChanged",
					}
				}
				rows["paused, and back"] = row{
					at(step).edit(paused, passes, wants("a", 3)), ended("Rest; 1:a1", "ContentChanged"),
				}
			} else {
				rows["19: no pods"] = row{at(step).edit(halted), gone}
				rows["20: Replace"] = row{at(step).edit(replaces), switched(step, "")}
			}
			run(t, rows)
		})
	}
}

// lost is what is made of what stands where the status lost its plan in a step. The content before keeps its sessions.
var lost = map[string]string{
	v1alpha1.StepProxies:     moving + "Proxies ProxiesNotAvailable",
	v1alpha1.StepCandidate:   moving + "Candidate CandidateNotReady",
	v1alpha1.StepCheck:       moving + "Check NotAsked",
	v1alpha1.StepAcknowledge: ending + "Acknowledge NotAcknowledged",
	v1alpha1.StepDrain:       ending + "Drain SessionsOpen",
	v1alpha1.StepTeardown:    "Ending; 2:b2; to 2:b2 Teardown BackendTerminating; empty [1]",
}

// 14: A restore brings objects, and no status.
func TestMake_Restored(t *testing.T) {
	restored := func(letter string, generation int64, one, two Slot) *scene {
		s := asksFor(letter, generation)
		s.Status, s.seen.Slots = Status{}, map[workload.Slot]Slot{workload.Slot1: one, workload.Slot2: two}
		return s
	}
	leaving := up(of("a", 1))
	leaving.Terminating = true
	run(t, map[string]row{
		"one content": {restored("a", 1, up(of("a", 1)), Slot{}), "Rest; 1:a1; empty [2]"},
		"in slot 2":   {restored("a", 1, Slot{}, up(of("a", 1))), "Rest; 2:a1; empty [1]"},
		"two": {
			restored("b", 2, up(of("a", 1)), up(of("b", 2))), moving + "Check NotAsked",
		},
		"two, of which the later has the calls": {
			restored("b", 2, leaving, up(of("b", 2))), "Rest; 2:b2; empty [1]",
		},
		"other content than is asked for, in place": {
			restored("b", 2, up(of("a", 1)), Slot{}).edit(inPlace), "Rest; 1:b2; empty [2]",
		},
	})
}

func TestMake_UnreadablePlans(t *testing.T) {
	for name, spoil := range map[string]func(*v1alpha1.RolloutStatus){
		"an unknown step":         func(r *v1alpha1.RolloutStatus) { r.Steps[1].Name = "Canary" },
		"no steps":                func(r *v1alpha1.RolloutStatus) { r.Steps = nil },
		"one step less":           func(r *v1alpha1.RolloutStatus) { r.Steps = r.Steps[:5] },
		"no step is active":       func(r *v1alpha1.RolloutStatus) { r.Steps[2].State = v1alpha1.StepDone },
		"two are":                 func(r *v1alpha1.RolloutStatus) { r.Steps[3].State = v1alpha1.StepActive },
		"a step that failed":      func(r *v1alpha1.RolloutStatus) { r.Steps[2].State = v1alpha1.StepFailed },
		"an order of its own":     func(r *v1alpha1.RolloutStatus) { r.Steps[0], r.Steps[1] = r.Steps[1], r.Steps[0] },
		"to the active slot":      func(r *v1alpha1.RolloutStatus) { r.Target.Slot = 1 },
		"from nowhere":            func(r *v1alpha1.RolloutStatus) { r.From = nil },
		"from what is not active": func(r *v1alpha1.RolloutStatus) { r.From.Hash = "c" },
	} {
		t.Run(name, func(t *testing.T) {
			s := at(v1alpha1.StepCheck)
			id := s.Rollout.ID
			spoil(s.Rollout)
			plan := s.pass()
			if plan.Active.Hash != of("a", 1).Hash || plan.Last == nil || len(plan.Empty) > 0 {
				t.Errorf("%s", text(plan))
			}
			if plan.Rollout == nil || plan.Rollout.ID == id || plan.Rollout.Target != in(2, of("b", 2)) {
				t.Errorf("the rollout is %+v", plan.Rollout)
			}
		})
	}
}
