package successive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// names are those of the steps, in their order.
var names = [...]string{
	v1alpha1.StepProxies, v1alpha1.StepCandidate, v1alpha1.StepCheck, v1alpha1.StepAcknowledge, v1alpha1.StepDrain,
	v1alpha1.StepTeardown,
}

// Where some of them are.
const checkStep, acknowledgeStep, drainStep = 2, 3, 4

// defaultSessionsEnd is how long sessions may go on at the content before.
const defaultSessionsEnd = 24 * time.Hour

func (m *maker) sessionsEnd() time.Duration {
	if d := m.want.Spec.SessionsEnd; d != nil {
		return d.Duration
	}
	return defaultSessionsEnd
}

func other(slot int32) workload.Slot { return workload.Slot(slot).Other() }

// plan is that of a rollout from what is active to what is asked for, in a slot.
func (m *maker) plan(slot workload.Slot) *v1alpha1.RolloutStatus {
	rollout := m.rollout(m.want.Content, m.Active.BackendContent, 0)
	rollout.Target.Slot = int32(slot)
	m.start(&rollout.Steps[0])
	m.begun = true
	return rollout
}

// draining is a rollout of which so much is left that the sessions of content end, which has no calls any more.
func (m *maker) draining(from v1alpha1.BackendContent, done int) *v1alpha1.RolloutStatus {
	rollout := m.rollout(m.Active.BackendContent, from, done)
	if m.Last != nil {
		// The rollout that gave the calls to the active content has the id of its attempt, and other ones were since.
		rollout.ID = m.id(m.Active.Generation, m.Last.ID)
	}
	rollout.Steps[drainStep].Deadline = m.in(m.sessionsEnd())
	m.start(&rollout.Steps[done])
	return rollout
}

// rollout is one of which so many steps are done.
func (m *maker) rollout(target, from v1alpha1.BackendContent, done int) *v1alpha1.RolloutStatus {
	rollout := &v1alpha1.RolloutStatus{ID: m.id(target.Generation, ""), Target: target, From: &from}
	for i, name := range names {
		state := v1alpha1.StepWaiting
		if i < done {
			state = v1alpha1.StepDone
		}
		rollout.Steps = append(rollout.Steps, v1alpha1.RolloutStep{Name: name, State: state})
	}
	return rollout
}

// attempt is how many rollouts there were to a generation, with the present one.
func (m *maker) attempt(generation int64) int32 {
	if m.Last != nil && m.Last.Generation == generation {
		return m.Last.Attempt + 1
	}
	return 1
}

// id is that of the rollout to a generation that is under way, or is the next; one that only lets sessions end is told
// from others by the rollout that was before it.
func (m *maker) id(generation int64, before string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d%s", m.want.UID, generation, m.attempt(generation), before))
	return hex.EncodeToString(sum[:16])
}

// end says what a rollout came to. Where sessions of its target were still to end when it began, they have the time
// that they had.
func (m *maker) end(state v1alpha1.RolloutState, reason, message string) {
	ended := m.Rollout
	m.Rollout = nil
	m.Last = &v1alpha1.RolloutOutcome{
		ID: ended.ID, Generation: ended.Target.Generation, Attempt: m.attempt(ended.Target.Generation),
		Hash: ended.Target.Hash, State: state, Reason: reason, Message: message, At: m.now,
	}
	if len(ended.Steps) != len(names) || state == v1alpha1.RolloutSucceeded {
		return
	}
	drain := ended.Steps[drainStep]
	if reason != v1alpha1.ReasonPlanUnreadable && (drain.Deadline != nil || drain.Remaining != nil) {
		m.Rollout = m.draining(ended.Target, drainStep)
		last := &m.Rollout.Steps[drainStep]
		last.Deadline, last.Remaining = drain.Deadline, drain.Remaining
	}
}

// succeed says that the target of the rollout has got the calls. What came later is not forgotten for it.
func (m *maker) succeed() {
	ended, last := m.Rollout, m.Last
	m.end(v1alpha1.RolloutSucceeded, "", ended.Steps[checkStep].Message)
	if last != nil && last.Generation > m.Last.Generation {
		m.Last = last
	}
	m.Rollout = ended
}

// named is the step with a name.
func (m *maker) named(name string) *v1alpha1.RolloutStep {
	return &m.Rollout.Steps[slices.Index(names[:], name)]
}

// standing is the content that gets the calls of a server whose status does not say so, as after a release that knew no
// slots, or a restore: what stands, of two what is ready, or else what has the lower generation and was there before.
func (m *maker) standing() *v1alpha1.ActiveBackend {
	slot := Incumbent(m.seen.Slots)
	content := m.seen.Slots[slot].Content
	if content.Hash == "" || content.Hash == m.want.Content.Hash {
		content = m.want.Content
	}
	if content.Port == 0 {
		content.Port = m.want.Content.Port
	}
	if content.Path == "" {
		content.Path = m.want.Content.Path
	}
	if content.Transport == "" {
		content.Transport = m.want.Content.Transport
	}
	content.Slot = int32(slot)
	content.Generation = max(1, min(content.Generation, m.want.Content.Generation))
	return &v1alpha1.ActiveBackend{BackendContent: content, Since: m.now}
}

// Incumbent is the slot of the content that gets the calls where the status does not say so.
func Incumbent(slots map[workload.Slot]Slot) workload.Slot {
	one, two := slots[workload.Slot1], slots[workload.Slot2]
	serves := func(s Slot) bool { return s.Ready > 0 && !s.Terminating }
	switch {
	case two.Content.Hash == "":
		return workload.Slot1
	case one.Content.Hash == "":
		return workload.Slot2
	case serves(one) != serves(two) && serves(two), serves(one) == serves(two) &&
		two.Content.Generation < one.Content.Generation:
		return workload.Slot2
	}
	return workload.Slot1
}

// recover lets the sessions end of content that stands beside what is active though no rollout says why, as where the
// status was lost.
func (m *maker) recover() {
	if m.Rollout != nil {
		return
	}
	slot := other(m.Active.Slot)
	there := m.seen.Slots[slot]
	if there.Content.Hash == "" || there.Content.Hash == m.Active.Hash || there.Terminating || m.isDone(there) {
		return
	}
	m.Rollout, m.recovered = m.draining(m.left(slot), acknowledgeStep), true
}

// left is what stands in a slot that has no calls any more. What is not known of it is taken from the active content.
func (m *maker) left(slot workload.Slot) v1alpha1.BackendContent {
	from := m.seen.Slots[slot].Content
	from.Slot = int32(slot)
	from.Generation = max(1, from.Generation)
	if from.Port == 0 || from.Path == "" || from.Transport == "" {
		from.Port, from.Path, from.Transport = m.Active.Port, m.Active.Path, m.Active.Transport
	}
	return from
}

// isDone reports whether the last outcome says that content in the other slot has no sessions: it was tried and never
// got calls, or has left it.
func (m *maker) isDone(there Slot) bool {
	return m.wasTried(there) || m.Last != nil && m.Last.State == v1alpha1.RolloutSucceeded &&
		m.Last.Hash == m.Active.Hash && m.Last.Generation == m.Active.Generation
}

func (m *maker) wasTried(there Slot) bool {
	return m.Last != nil && m.Last.Hash == there.Content.Hash && m.Last.State != v1alpha1.RolloutSucceeded &&
		m.Last.Reason != v1alpha1.ReasonPlanUnreadable
}

// readable reports whether the rollout is one that this package made: all steps in their order, one of them active, and
// the contents in slots that fit.
func (m *maker) readable() bool {
	r, active := m.Rollout, -1
	if len(r.Steps) != len(names) {
		return false
	}
	for i, step := range r.Steps {
		want := v1alpha1.StepDone
		switch {
		case step.State == v1alpha1.StepActive && active < 0:
			active, want = i, v1alpha1.StepActive
		case active >= 0:
			want = v1alpha1.StepWaiting
		}
		if step.Name != names[i] || step.State != want {
			return false
		}
	}
	from := r.From
	switch {
	case active < 0:
		return false
	case active <= checkStep:
		return r.Target.Slot != m.Active.Slot && from != nil && from.Slot == m.Active.Slot && from.Hash == m.Active.Hash
	case active <= drainStep:
		return m.switched() && from != nil && from.Slot != m.Active.Slot
	}
	return m.switched() && from == nil
}

// in is a time from now, to the second, as the API stores it.
func (m *maker) in(d time.Duration) *metav1.Time {
	return new(metav1.NewTime(m.now.Add(d).Truncate(time.Second)))
}
