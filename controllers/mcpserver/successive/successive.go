// Package successive decides how content of a backend takes the place of other content: in the place of that, or beside
// it, step by step, until calls go to the new content and the old has no sessions any more. Make is a pure function of
// what the status says, what is asked for, what was observed, and the time. What it returns is written at the version
// of the status that it was given, in one write, before anything is made or deleted by it: so of any number of passes
// over one status one wins, and a crash between the two is made good by the next pass.
package successive

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Status is what the status of a server says of the contents of its backend.
type Status struct {
	Active  *v1alpha1.ActiveBackend
	Rollout *v1alpha1.RolloutStatus
	Last    *v1alpha1.RolloutOutcome
}

// Wanted is what is asked for.
type Wanted struct {
	UID types.UID
	// Content is what is claimed, with the generation of the claim. Its slot counts for nothing.
	Content v1alpha1.BackendContent
	// Asked is since which generation no other content of the backend has been asked for.
	Asked int64
	// Successive says that the claim is one of content that comes up beside other content.
	Successive bool
	// Spec is spec.rollout, nil where there is none.
	Spec *v1alpha1.RolloutSpec
	// Halted says that the server serves no calls by intent.
	Halted bool
	// Reads names the ConfigMaps and Secrets that pods with Content read.
	Reads string
	// Pinned says that the image of Content is named by its digest, so that no tag can move.
	Pinned bool
	// Replicas are those of the backend.
	Replicas int32
	// Deadline is how long each step before the switch may take.
	Deadline time.Duration
}

// Observed is what was seen.
type Observed struct {
	Slots map[workload.Slot]Slot
	// ProxiesReady says that all proxies are of the claimed generation, and one at least is available.
	ProxiesReady bool
	// ProxiesUnanswered says that proxies of the claimed generation run, and that what has the calls
	// does not answer them.
	ProxiesUnanswered bool
	// Proxies are what each proxy pod has answered.
	Proxies []Answer
	// Candidate is what the runner reports of the target, nil for nothing.
	Candidate *v1alpha1.CandidateStatus
}

// Slot is what is in one of the two places of a backend.
type Slot struct {
	// Stands says that an object is there that the server controls, or a pod of it, and IsTaken that one of its names is
	// another owner's.
	Stands, IsTaken bool
	// Overdue says which pod has not ended in its time, empty for none.
	Overdue string
	// Terminating says that its StatefulSet is being deleted.
	Terminating bool
	// Content is that of the StatefulSet, if the server controls it. Without a hash there is none. What is not known of
	// it is left out.
	Content v1alpha1.BackendContent
	// RolledOut says that all pods run Content, and Ready is how many of them are ready.
	RolledOut bool
	Ready     int32
	// Images are the digests of the server's image that its pods with Content run, sorted: more than one where a tag has
	// moved.
	Images []string
	// Failure is what keeps a pod with Content from running, or Content from being applied, and Quota is set where a quota
	// refuses a pod.
	Failure, Quota *conditions.Finding
}

// Answer is what a proxy pod says of where it has calls go. Routing is nil where that is not known.
type Answer struct {
	Routing *runconfig.Routing
	// At is when it said so.
	At time.Time
}

// Plan is what is to be.
type Plan struct {
	// Status is what the status is to say. It has an active content always.
	Status
	// Empty are the slots in which nothing of the server may stand, once the status says so.
	Empty []workload.Slot
	// Wake is when to look again though nothing happens, 0 for never.
	Wake    time.Duration
	Verdict Verdict
}

// Verdict is how the content that is asked for fares.
type Verdict struct {
	State State
	// Step is the one that the rollout is in, without a name where there is no rollout.
	Step v1alpha1.RolloutStep
}

// State is where the content that is asked for is.
type State int

const (
	// Rest means that it is active, or replaces what is active in its place, or that the server serves no calls by
	// intent.
	Rest State = iota
	// Moving means that it is on its way, and other content serves.
	Moving
	// Held means that it was checked, and waits for an approval.
	Held
	// Paused means that it comes up, or waits for an earlier rollout, which spec.rollout.paused holds.
	Paused
	// Failed means that it did not come up, or did not pass its check: Plan.Last says why. Other content serves.
	Failed
	// WaitsForDrain means that it waits until proxies have acknowledged an earlier switch, and for the sessions of the
	// content before, which end within two minutes.
	WaitsForDrain
	// WaitsForSlot means that it waits until nothing is left in its slot, for as long as that takes.
	WaitsForSlot
	// Ending means that it is active, and the content before is on its way out.
	Ending
)

func (s State) String() string {
	return [...]string{
		"Rest", "Moving", "Held", "Paused", "Failed", "WaitsForDrain", "WaitsForSlot", "Ending",
	}[s]
}

// IsServedByOther reports whether calls go to other content than is asked for, as they are meant to.
func (v Verdict) IsServedByOther() bool { return v.State != Rest && v.State != Ending }

// NeedsAnswers reports whether what proxies answer decides what is next.
func (s Status) NeedsAnswers() bool {
	step := s.step()
	return step != nil && (step.Name == v1alpha1.StepAcknowledge || step.Name == v1alpha1.StepDrain)
}

// Drains reports whether the content before has its sessions still.
func (s Status) Drains() bool {
	step := s.step()
	return step != nil && step.Name == v1alpha1.StepDrain
}

// AnswersLast is for how long what proxies have answered in the present step is as good as a new answer: 0 until they
// have acknowledged a switch. Sessions that have gone on for long are asked for rarely.
func (s Status) AnswersLast(now time.Time) time.Duration {
	step := s.step()
	if !s.Drains() || step.StartedAt == nil {
		return 0
	}
	return min(max(asksOfSessions, now.Sub(step.StartedAt.Time)/10), quiet)
}

// step is the one that the rollout is in, nil where there is none.
func (s Status) step() *v1alpha1.RolloutStep {
	if s.Rollout == nil {
		return nil
	}
	i := slices.IndexFunc(s.Rollout.Steps, func(step v1alpha1.RolloutStep) bool {
		return step.State == v1alpha1.StepActive
	})
	if i < 0 {
		return nil
	}
	return &s.Rollout.Steps[i]
}

// switched reports whether the target of the rollout is the active content.
func (s Status) switched() bool {
	return s.Rollout.Target.Slot == s.Active.Slot && s.Rollout.Target.Hash == s.Active.Hash
}

// slots are those that the status names.
func (s Status) slots() []workload.Slot {
	named := []workload.Slot{workload.Slot(s.Active.Slot)}
	if s.Rollout != nil {
		named = append(named, workload.Slot(s.Rollout.Target.Slot))
		if s.Rollout.From != nil {
			named = append(named, workload.Slot(s.Rollout.From.Slot))
		}
	}
	return named
}

type maker struct {
	Status
	want Wanted
	seen Observed
	now  metav1.Time
	// recovered says that the rollout is one that no status named.
	recovered bool
	// begun says that the rollout begins in this pass.
	begun bool
	// waits is what the content that is asked for waits for, Rest for nothing.
	waits State
}

// Make decides what is next. It keeps its arguments as they are.
func Make(status Status, want Wanted, seen Observed, now time.Time) Plan {
	m := &maker{
		Status: Status{status.Active.DeepCopy(), status.Rollout.DeepCopy(), status.Last.DeepCopy()},
		want:   want, seen: seen, now: metav1.NewTime(now),
	}
	if m.want.Spec == nil {
		m.want.Spec = &v1alpha1.RolloutSpec{}
	}
	if m.Active == nil {
		m.Active = m.standing()
	}
	if m.Rollout != nil && !m.readable() {
		m.end(v1alpha1.RolloutCancelled, v1alpha1.ReasonPlanUnreadable, "")
	}
	m.cancel()
	m.replace()
	m.recover()
	m.begin()
	m.suspend()
	m.advance()
	plan := Plan{Status: m.Status, Verdict: m.verdict(), Wake: m.wake()}
	named := m.slots()
	for _, slot := range workload.Slots {
		if !slices.Contains(named, slot) {
			plan.Empty = append(plan.Empty, slot)
		}
	}
	return plan
}

// beside reports whether the content that is asked for comes up beside what is active.
func (m *maker) beside() bool {
	return m.want.Successive && m.want.Spec.Strategy == v1alpha1.StrategySuccessive &&
		m.want.Content.Hash != m.Active.Hash
}

// failed reports whether a rollout to what is asked for has failed, and nothing else was asked for since: other content
// of the proxy is no reason to try the same again.
func (m *maker) failed() bool {
	return m.Last != nil && m.Last.State == v1alpha1.RolloutFailed &&
		m.Last.Generation >= m.want.Asked && m.Last.Hash == m.want.Content.Hash
}

// cancel ends a rollout whose target gets no calls yet, and is not asked for any more.
func (m *maker) cancel() {
	switch {
	case m.Rollout == nil || m.switched():
	case m.Rollout.Target.Hash != m.want.Content.Hash:
		m.end(v1alpha1.RolloutCancelled, v1alpha1.ReasonContentChanged, "")
	case m.want.Halted:
		m.end(v1alpha1.RolloutCancelled, v1alpha1.ReasonHalted, "")
	case !m.beside():
		m.end(v1alpha1.RolloutCancelled, v1alpha1.ReasonStrategyChanged, "")
	}
}

// replace lets what is asked for take the place of what is active, if it does not come up beside it. It is of now only
// where it is other content: who repairs the rest states the same again, which is limited.
func (m *maker) replace() {
	if m.beside() {
		return
	}
	content, had := m.want.Content, m.Active.BackendContent
	if content.Slot = m.place(); content.Hash == had.Hash {
		content.Generation = had.Generation
	} else {
		content.Generation = max(had.Generation, content.Generation)
		m.Active.Since = m.now
	}
	m.Active.BackendContent = content
	if m.Rollout != nil && content.Hash != had.Hash {
		m.succeed()
		m.Rollout.ID = m.id(content.Generation, "")
		// What drains may have the disk or the device that this content replaces in its place for.
		drain := m.named(v1alpha1.StepDrain)
		if m.want.Spec.Strategy == v1alpha1.StrategyReplace && drain.State != v1alpha1.StepDone {
			m.lower(drain, m.now.Time)
		}
	}
	if content.Slot != had.Slot {
		// Proxies learn of it first. Sessions end as they do where content is replaced in its place.
		if left := workload.Slot(had.Slot); m.seen.Slots[left].Content.Hash != "" {
			had = m.left(left) // it may not be what is asked for yet
		}
		m.Rollout = m.draining(had, acknowledgeStep)
		m.Rollout.Steps[drainStep].Deadline = m.in(0)
	}
	if m.Rollout == nil {
		return
	}
	m.Rollout.Target = content
	// Nobody can tell sessions of two slots apart that have the same content.
	if from := m.Rollout.From; from != nil && from.Hash == content.Hash {
		m.leave()
	}
}

// place is the slot of content that does not come up beside other content: that in which it is ready already, else that
// of what is active. What is ready is not deleted to make the same again where something else stands.
func (m *maker) place() int32 {
	here, there := workload.Slot(m.Active.Slot), other(m.Active.Slot)
	if !m.want.Halted && !m.isReady(here) && m.isReady(there) {
		return int32(there)
	}
	return int32(here)
}

// isReady reports whether a pod of a slot is ready that has the content which is asked for.
func (m *maker) isReady(slot workload.Slot) bool {
	there := m.seen.Slots[slot]
	return there.Content.Hash == m.want.Content.Hash && there.Ready > 0 && !there.Terminating
}

// begin makes the plan of a rollout where one is asked for and there is room for it.
func (m *maker) begin() {
	if !m.beside() || m.want.Halted || m.failed() {
		return
	}
	slot := other(m.Active.Slot)
	switch there := m.seen.Slots[slot]; {
	case m.Rollout != nil && !m.switched():
	case m.Rollout != nil:
		m.goBack()
	case there.Stands, there.IsTaken:
		m.waits = WaitsForSlot
	default:
		m.Rollout = m.plan(slot)
	}
}

// goBack makes the plan of a rollout to content that was active before, while its sessions end: it stays in its slot.
// Any other content waits until they have ended, for which they have less time then.
func (m *maker) goBack() {
	drain := m.named(v1alpha1.StepDrain)
	if (drain.State == v1alpha1.StepActive || m.recovered) && m.Rollout.From.Hash == m.want.Content.Hash {
		if !m.recovered {
			m.succeed()
		}
		next := m.plan(workload.Slot(m.Rollout.From.Slot))
		// If the rollout comes to nothing the sessions have the time that they had.
		last := &next.Steps[drainStep]
		last.Deadline, last.Remaining = drain.Deadline, drain.Remaining
		m.Rollout = next
		return
	}
	if m.waits = WaitsForDrain; m.step().Name == v1alpha1.StepTeardown {
		m.waits = WaitsForSlot
	}
	if drain.State != v1alpha1.StepDone {
		m.lower(drain, m.now.Add(hurried))
	}
}

func (m *maker) verdict() Verdict {
	v := Verdict{State: m.waits}
	if step := m.step(); step != nil {
		v.Step = *step
	}
	switch {
	case m.Rollout != nil && m.isPaused() && (!m.switched() || m.waits != Rest):
		v.State = Paused
	case m.Rollout != nil && !m.switched() && m.holds(&v.Step):
		v.State = Held
	case m.Rollout != nil && !m.switched():
		v.State = Moving
	case m.beside() && m.failed():
		v.State = Failed
	case m.waits == Rest && m.Rollout != nil:
		v.State = Ending
	}
	return v
}
