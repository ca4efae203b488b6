package successive

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

const (
	// acknowledged is how long a proxy may take to call the target. One that takes longer calls the active content once
	// it finds nobody at the other.
	acknowledged = time.Minute
	// quiet is for how long no proxy has seen a session of content whose sessions have ended.
	quiet = 10 * time.Minute
	// hurried is how long sessions may go on while other content waits for their slot.
	hurried = 2 * time.Minute
	// lastingPart is which part of a step's time a crash, or an image that cannot be had, may last: the container may end
	// once before what it needs is there, and a registry may be busy. For as long proxies wait for the incumbent's answer.
	lastingPart = 5
	// leastDigits are those of a hash that name content.
	leastDigits = 10
	// asks is how often proxies are asked whether they call the target, and asksOfSessions how often at first whether
	// they see sessions. They cannot be watched.
	asks, asksOfSessions = 2 * time.Second, 30 * time.Second
)

// outcome is what a step came to in this pass.
type outcome struct {
	state v1alpha1.RolloutStepState
	// untimed says that the deadline of a step that goes on does not run.
	untimed         bool
	reason, message string
}

func done() outcome { return outcome{state: v1alpha1.StepDone} }

func waits(reason string) outcome { return outcome{state: v1alpha1.StepActive, reason: reason} }

func waitsFor(why conditions.Finding) outcome {
	return outcome{state: v1alpha1.StepActive, reason: why.Reason, message: why.Message}
}

// steps tell by name whether a step is done.
var steps = map[string]func(*maker) outcome{
	v1alpha1.StepProxies:     (*maker).proxies,
	v1alpha1.StepCandidate:   (*maker).candidate,
	v1alpha1.StepCheck:       (*maker).check,
	v1alpha1.StepAcknowledge: (*maker).acknowledge,
	v1alpha1.StepDrain:       (*maker).drain,
	v1alpha1.StepTeardown:    (*maker).teardown,
}

// advance takes the steps that are done. The switch is the last of a pass: what follows it is told by who has seen it.
func (m *maker) advance() {
	for m.Rollout != nil && !m.isPaused() {
		if step := m.step(); !m.take(step) || step.Name == v1alpha1.StepCheck {
			return
		}
	}
}

// take ends a step if it is over.
func (m *maker) take(step *v1alpha1.RolloutStep) bool {
	got := m.time(step, m.stands(step, steps[step.Name](m)))
	switch step.Reason, step.Message = got.reason, got.message; got.state {
	case v1alpha1.StepFailed:
		m.end(v1alpha1.RolloutFailed, got.reason, got.message)
		return true
	case v1alpha1.StepActive, v1alpha1.StepWaiting:
		return false
	case v1alpha1.StepDone:
	}
	step.State, step.Since, step.Deadline, step.Remaining = v1alpha1.StepDone, nil, nil, nil
	switch step.Name {
	case v1alpha1.StepCheck:
		m.switchOver()
	case v1alpha1.StepDrain:
		m.leave()
		return true
	case v1alpha1.StepTeardown:
		m.succeed()
		m.Rollout = nil
		return true
	}
	for i := range m.Rollout.Steps {
		if next := &m.Rollout.Steps[i]; next.State == v1alpha1.StepWaiting {
			m.start(next)
			return true
		}
	}
	return true
}

// leave gives up the slot of the content before.
func (m *maker) leave() {
	m.Rollout.From = nil
	for i := range m.Rollout.Steps {
		switch step := &m.Rollout.Steps[i]; {
		case i <= drainStep:
			step.State, step.Since, step.Deadline, step.Remaining = v1alpha1.StepDone, nil, nil, nil
		default:
			m.start(step)
		}
	}
}

// start begins a step. That in which sessions end has its deadline from the switch on.
func (m *maker) start(step *v1alpha1.RolloutStep) {
	step.State, step.StartedAt = v1alpha1.StepActive, new(m.now)
	switch step.Name {
	case v1alpha1.StepProxies, v1alpha1.StepCandidate, v1alpha1.StepCheck:
		step.Deadline = m.in(m.want.Deadline)
	case v1alpha1.StepAcknowledge:
		step.Deadline = m.in(acknowledged)
	}
}

// switchOver gives the calls to the target. What counts from now on is in the same write.
func (m *maker) switchOver() {
	m.Rollout.From = new(m.Active.BackendContent)
	m.Active = &v1alpha1.ActiveBackend{BackendContent: m.Rollout.Target, Since: m.now}
	drain := m.named(v1alpha1.StepDrain)
	drain.Deadline, drain.Remaining = m.in(m.sessionsEnd()), nil
}

func (m *maker) target() Slot { return m.seen.Slots[workload.Slot(m.Rollout.Target.Slot)] }

// isUp reports whether all pods of the target are ready.
func (m *maker) isUp() bool {
	t := m.target()
	return t.Content.Hash == m.Rollout.Target.Hash && !t.Terminating && t.RolledOut && t.Ready > 0 &&
		t.Ready >= m.want.Replicas
}

// proxies waits until the proxies that know both contents are ready. A proxy gets ready once the incumbent answers it.
// Where the incumbent answers none of them for a while they need not be: one that runs makes the candidate and asks it.
func (m *maker) proxies() outcome {
	if m.seen.ProxiesReady || m.seen.ProxiesUnanswered && m.unanswered(m.step()) <= 0 {
		return done()
	}
	return waits(v1alpha1.ReasonProxiesNotAvailable)
}

// unanswered is for how much longer an incumbent is waited for that answers no proxy.
func (m *maker) unanswered(step *v1alpha1.RolloutStep) time.Duration {
	return ptr.Deref(step.StartedAt, m.now).Add(m.want.Deadline / lastingPart).Sub(m.now.Time)
}

// candidate waits for all pods of the target. What keeps one from running is told before a quota that keeps others from
// being made, and where nothing is made, why.
func (m *maker) candidate() outcome {
	t := m.target()
	switch {
	case m.isUp():
		return done()
	case t.Terminating || t.Content.Hash != "" && t.Content.Hash != m.Rollout.Target.Hash:
	case t.Failure != nil:
		got := waitsFor(*t.Failure)
		got.untimed = t.Quota != nil
		if isFinal(*t.Failure) {
			got.state = v1alpha1.StepFailed
		}
		return got
	case t.Quota != nil:
		got := waitsFor(*t.Quota)
		got.untimed = true
		return got
	}
	return waits(v1alpha1.ReasonCandidateNotReady)
}

// isFinal reports whether a person has to write something else before a pod runs. A node may be found for one that
// waits for it.
func isFinal(failure conditions.Finding) bool {
	phase := conditions.PhaseOf(failure)
	return !mayPass(failure.Reason) && (phase == v1alpha1.PhaseFaulty || phase == v1alpha1.PhaseBlocked)
}

// mayPass reports whether a failure may pass by itself, but is not waited for as long as other ones.
func mayPass(reason string) bool {
	return reason == v1alpha1.ReasonCrashLoop || reason == v1alpha1.ReasonImagePull
}

// stands notes since when a step waits for the same, and fails a candidate of which the same may pass but has stood for
// too long.
func (m *maker) stands(step *v1alpha1.RolloutStep, got outcome) outcome {
	switch {
	case got.reason == "" || got.state == v1alpha1.StepDone:
		step.Since = nil
		return got
	case step.Reason != got.reason || step.Since == nil:
		step.Since = m.in(0)
	}
	step.Reason = got.reason
	if step.Name == v1alpha1.StepCandidate && m.patience(step) <= 0 {
		got.state = v1alpha1.StepFailed
	}
	return got
}

// patience is for how much longer a failure is waited for that may pass.
func (m *maker) patience(step *v1alpha1.RolloutStep) time.Duration {
	if !mayPass(step.Reason) {
		return m.want.Deadline
	}
	return step.Since.Add(m.want.Deadline / lastingPart).Sub(m.now.Time)
}

func (m *maker) check() outcome {
	report := m.seen.Candidate
	switch {
	case m.begun: // it may be of an attempt before, and no switch goes out in the write that begins a rollout
		return waits(v1alpha1.ReasonNotAsked)
	case !m.isUp():
		if t := m.target(); t.Failure != nil && t.Content.Hash == m.Rollout.Target.Hash {
			return waitsFor(*t.Failure)
		}
		return waits(v1alpha1.ReasonCandidateNotReady)
	case report == nil || report.Hash != m.Rollout.Target.Hash || !report.Answers && report.Reason == "":
		return waits(v1alpha1.ReasonNotAsked)
	case !report.Answers:
		return waitsFor(conditions.False(report.Reason, report.Message))
	}
	checked := outcome{state: v1alpha1.StepActive, untimed: true, message: m.refers()}
	switch hold := m.want.Spec.Hold; {
	case m.isApproved():
		checked.state = v1alpha1.StepDone
	case hold == v1alpha1.HoldAlways:
		checked.reason = v1alpha1.ReasonApprovalRequired
	case hold != v1alpha1.HoldNever && (report.Lost > 0 || m.lost(report)):
		checked.reason = v1alpha1.ReasonLostTools
	case hold != v1alpha1.HoldNever && !m.want.Pinned && len(m.target().Images) > 1:
		checked.reason = v1alpha1.ReasonImagesDiffer
	default:
		checked.state = v1alpha1.StepDone
	}
	return checked
}

// refers names what the target was checked with, and its content has by name alone: who goes back to it later gets what
// these names lead to then.
func (m *maker) refers() string {
	var parts []string
	if ids := m.target().Images; len(ids) > 0 {
		parts = append(parts, "pods run "+strings.Join(ids, ", "))
	}
	if m.want.Reads != "" {
		parts = append(parts, "pods read "+m.want.Reads)
	}
	return strings.Join(parts, ", ")
}

// lost reports whether tools were found missing before what has the calls answered no more.
func (m *maker) lost(report *v1alpha1.CandidateStatus) bool {
	return report.Reason == v1alpha1.ReasonNotAsked && m.step().Reason == v1alpha1.ReasonLostTools
}

func (m *maker) isApproved() bool {
	approved := m.want.Spec.Approved
	return len(approved) >= leastDigits && strings.HasPrefix(m.Rollout.Target.Hash, approved)
}

// holds reports whether a step waits for an approval.
func (m *maker) holds(step *v1alpha1.RolloutStep) bool {
	return step.Name == v1alpha1.StepCheck && v1alpha1.NeedsApproval(step.Reason)
}

// acknowledge is done when every proxy says that it calls the target: one that says nothing does not.
func (m *maker) acknowledge() outcome {
	if m.want.Halted {
		return outcome{state: v1alpha1.StepDone, reason: v1alpha1.ReasonHalted}
	}
	if m.allProxies(func(Answer) bool { return true }) {
		return done()
	}
	return waits(v1alpha1.ReasonNotAcknowledged)
}

// allProxies reports whether there are proxies, each says that it calls the target, and of each something else is so.
func (m *maker) allProxies(also func(Answer) bool) bool {
	target := m.Rollout.Target
	return len(m.seen.Proxies) > 0 && !slices.ContainsFunc(m.seen.Proxies, func(p Answer) bool {
		if p.Routing == nil || p.Routing.ServerUID != string(m.want.UID) {
			return true
		}
		active := p.Routing.Active
		return active == nil || active.Slot != target.Slot || active.Hash != target.Hash ||
			active.Generation != target.Generation || !also(p)
	})
}

// drain is done when no proxy has seen a session of the content before for a while, as long as it has known.
func (m *maker) drain() outcome {
	if m.want.Halted {
		return outcome{state: v1alpha1.StepDone, reason: v1alpha1.ReasonHalted}
	}
	step := m.step()
	since := ptr.Deref(step.StartedAt, m.now)
	if step.Deadline != nil { // spec.rollout.sessionsEnd may be shorter now
		m.lower(step, since.Add(m.sessionsEnd()))
	}
	if m.allProxies(func(p Answer) bool {
		if p.At.Before(since.Time) {
			return false // it may have begun sessions since, before it called the target
		}
		use, last := p.Routing.Of(m.Rollout.From.Hash), p.Routing.Since
		if use == nil || use.InFlight > 0 {
			return false
		}
		if use.SessionSeen.After(last) {
			last = use.SessionSeen
		}
		return p.At.Sub(last) >= min(quiet, m.sessionsEnd())
	}) {
		return done()
	}
	if m.isUnreachable() {
		return waitsFor(conditions.ProxiesUnreachable())
	}
	return waits(v1alpha1.ReasonSessionsOpen)
}

// isUnreachable reports whether there are proxies, and none says anything.
func (m *maker) isUnreachable() bool {
	return len(m.seen.Proxies) > 0 && !slices.ContainsFunc(m.seen.Proxies, func(p Answer) bool { return p.Routing != nil })
}

// teardown is done when nothing of the server is left in the slot that the rollout has left.
func (m *maker) teardown() outcome {
	there := m.seen.Slots[other(m.Active.Slot)]
	if !there.Stands {
		return done()
	}
	return waitsFor(conditions.False(v1alpha1.ReasonBackendTerminating, there.Overdue))
}

// isPaused reports whether nothing moves. A server that serves no calls has no sessions that could go on.
func (m *maker) isPaused() bool { return m.want.Spec.Paused && !m.want.Halted }

// suspend stores what is left of the deadlines while the rollout is paused, and goes on with them after.
func (m *maker) suspend() {
	if m.Rollout == nil {
		return
	}
	for i := range m.Rollout.Steps {
		switch step := &m.Rollout.Steps[i]; {
		case m.isPaused():
			m.stop(step)
			step.Since = nil
		case step.State != v1alpha1.StepActive || step.Name != v1alpha1.StepCandidate:
			m.resume(step)
		}
	}
}

func (m *maker) stop(step *v1alpha1.RolloutStep) {
	if step.Deadline != nil {
		left := max(0, step.Deadline.Sub(m.now.Time)).Truncate(time.Second)
		step.Deadline, step.Remaining = nil, &metav1.Duration{Duration: left}
	}
}

func (m *maker) resume(step *v1alpha1.RolloutStep) {
	if step.Remaining != nil {
		step.Deadline, step.Remaining = m.in(step.Remaining.Duration), nil
	}
}

// time judges an outcome by the deadline of its step.
func (m *maker) time(step *v1alpha1.RolloutStep, got outcome) outcome {
	switch {
	case got.state != v1alpha1.StepActive:
		return got
	case got.untimed && step.Name == v1alpha1.StepCheck: // which has all its time again if a target that is held fails
		step.Deadline, step.Remaining = nil, nil
		return got
	case got.untimed:
		m.stop(step)
		return got
	}
	if m.resume(step); step.Deadline == nil && step.Name == v1alpha1.StepCheck {
		step.Deadline = m.in(m.want.Deadline)
	}
	if step.Deadline == nil || m.now.Time.Before(step.Deadline.Time) {
		return got
	}
	switch step.Name {
	case v1alpha1.StepAcknowledge, v1alpha1.StepDrain:
		return outcome{state: v1alpha1.StepDone, reason: v1alpha1.ReasonDeadlineExceeded}
	}
	got.state = v1alpha1.StepFailed
	return got
}

// lower leaves the sessions of the content before no more time than until end.
func (m *maker) lower(drain *v1alpha1.RolloutStep, end time.Time) {
	switch {
	case drain.Remaining != nil:
		drain.Remaining.Duration = min(drain.Remaining.Duration, end.Sub(m.now.Time))
	case drain.Deadline == nil || end.Before(drain.Deadline.Time):
		drain.Deadline = new(metav1.NewTime(end.Truncate(time.Second)))
	}
}

// wake is when to look again: at a deadline, at the end of patience, and where proxies are to be asked again.
func (m *maker) wake() time.Duration {
	step := m.step()
	if step == nil || m.isPaused() {
		return 0
	}
	var waits []time.Duration
	if step.Deadline != nil {
		waits = append(waits, max(time.Second, step.Deadline.Sub(m.now.Time)))
	}
	switch step.Name {
	case v1alpha1.StepProxies:
		if left := m.unanswered(step); left > 0 {
			waits = append(waits, left)
		}
	case v1alpha1.StepCandidate:
		if step.Since != nil && mayPass(step.Reason) {
			waits = append(waits, max(time.Second, m.patience(step)))
		}
		if step.Since != nil && step.Message != "" { // Ready may keep its message of before for a while
			if stale := step.Since.Add(conditions.MessageChangeInterval).Sub(m.now.Time); stale >= 0 {
				waits = append(waits, stale+time.Second)
			}
		}
	case v1alpha1.StepAcknowledge:
		waits = append(waits, asks)
	case v1alpha1.StepDrain:
		waits = append(waits, m.AnswersLast(m.now.Time))
	case v1alpha1.StepTeardown:
		waits = append(waits, quiet) // that a pod is overdue is no event
	}
	if len(waits) == 0 {
		return 0
	}
	return slices.Min(waits)
}
