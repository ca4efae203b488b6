package rollout

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// The model: a fleet that refers to one configuration, whose members are what their controllers have written of them,
// beside what is really so. A controller's pass is that of controllers/mcpserver as far as the plan can see it.

// rules are those of the plan, of which a test may break one.
type rules struct {
	phase func(Workload, Facts) Phase
	// ownTakes lets a change of a member's own take the present content too.
	ownTakes bool
}

func sound() rules {
	return rules{phase: func(_ Workload, f Facts) Phase { return f.Phase() }}
}

const (
	// deadline is how many steps a member may go without progress, which pods take less than.
	deadline  = 60
	mostSteps = 6
)

// sim is a member: all that was written of it, the last one now, and what is so.
type sim struct {
	written []Workload
	// own is the number of its own spec, claimed that of the one that it runs.
	own, claimed int
	invalid      bool // its own spec
	refused      bool // each claim of it
	upstream     bool // is down
	// until is when its pods are up again, since the time from which it does not serve.
	until, since int
	// took is the content that it took in its turn, served the generation that it has served with.
	took   string
	served int64
}

func (m *sim) now() Workload { return m.written[len(m.written)-1] }

func (m *sim) hash() string { return m.now().Claim.Configs[0].Hash }

func (m *sim) everServed() bool { return m.served > 0 }

func (m *sim) hasServed() bool { return m.served >= m.now().Claim.Generation }

// model is a fleet, and the content of the configuration, empty for none.
type model struct {
	rules
	*rand.Rand
	members []*sim
	names   int
	percent int
	content string
	changes int
	broken  map[string]bool
	time    int
	lags    bool
	said    []string // what happened
	wrong   error
}

func (m *model) tell(format string, args ...any) {
	m.said = append(m.said, fmt.Sprintf("%4d ", m.time)+fmt.Sprintf(format, args...))
}

func (m *model) fails(format string, args ...any) {
	if m.wrong != nil {
		return
	}
	m.wrong = fmt.Errorf(format, args...)
	for _, s := range m.members {
		w := s.now()
		m.tell("%s is %s and says %+v, served %d of %d, with %s: %+v", w.Name, m.phase(w),
			w.Conditions[:min(1, len(w.Conditions))], w.Served, w.Claim.Generation, s.hash(), w.Facts(kind, name, m.content))
	}
}

// born adds a member that has the present content, or a stopped one for want of any.
func (m *model) born() {
	w := Workload{
		Name:  fmt.Sprintf("m%02d", m.names),
		Claim: &v1alpha1.WorkloadStatus{Generation: 1, Configs: []v1alpha1.WorkloadConfig{m.config(m.content)}},
	}
	w.Conditions = says(v1alpha1.ReasonStarting, false)
	m.names++
	m.members = append(m.members, &sim{written: []Workload{w}, until: m.time + 1 + m.IntN(mostSteps), since: m.time})
}

func (m *model) config(hash string) v1alpha1.WorkloadConfig {
	return v1alpha1.WorkloadConfig{Kind: kind, Name: name, Hash: hash}
}

// says is what a member says of Ready.
func says(reason string, stalled bool) []metav1.Condition {
	all := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason}}
	if reason == v1alpha1.ReasonReady {
		all[0].Status = metav1.ConditionTrue
	}
	if stalled {
		all = append(all, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason})
	}
	return all
}

func (m *model) write(s *sim, w Workload) {
	if !reflect.DeepEqual(w, s.now()) {
		s.written = append(s.written, w)
	}
}

func (m *model) phase(w Workload) Phase {
	return m.rules.phase(w, w.Facts(kind, name, m.content))
}

// plan is made by one whose cache lags by any time in half of all passes, but for
// itself: a claim is made at the version that was read.
func (m *model) plan(self *sim) Plan {
	var all []Member
	late := m.lags && m.IntN(2) == 0
	for _, s := range m.members {
		w := s.now()
		if late && s != self {
			w = s.written[m.IntN(len(s.written))]
		}
		all = append(all, Member{Name: w.Name, Phase: m.phase(w)})
	}
	return For(all, m.percent)
}

// serves reports whether pods of what a member claimed serve.
func (m *model) serves(s *sim) bool {
	return !s.now().Stopped && !s.upstream && m.time >= s.until && !m.broken[s.hash()]
}

// step lets time pass for a member: what serves is seen, whoever looks.
func (m *model) tick() {
	m.time++
	for _, s := range m.members {
		if m.serves(s) {
			s.since = m.time
		}
	}
}

// pass is one of a member's controller.
func (m *model) pass(s *sim) {
	w := s.now()
	ready := w.now("") == Serving
	switch {
	case s.invalid:
		m.report(s, v1alpha1.ReasonSpecInvalid)
		return
	case m.content == "":
		m.report(s, v1alpha1.ReasonConfigNotFound)
		return
	}
	turn, _ := w.turn(m.config(m.content), m.phase(w), func() (Plan, error) { return m.plan(s), nil })
	if m.ownTakes && s.own != s.claimed {
		turn.Admitted = true
	}
	takes := turn.Admitted && s.hash() != m.content
	switch {
	case !takes && s.own == s.claimed:
		m.reportRun(s, turn)
	case ready && !w.Stopped:
		m.report(s, v1alpha1.ReasonUpdating)
	case s.refused:
		m.report(s, v1alpha1.ReasonApplyFailed)
	default:
		m.claim(s, turn, takes)
	}
}

func (m *model) claim(s *sim, turn Turn, takes bool) {
	w := s.now()
	records := w.Records(turn, false)
	if takes {
		m.judge(s, records.InTurn)
	}
	claim := *w.Claim
	claim.Generation++
	claim.Configs = []v1alpha1.WorkloadConfig{records}
	if w.Claim = &claim; !records.InTurn {
		s.took = ""
	} else if takes {
		s.took = records.Hash
	}
	m.tell("%s claims %d with %s, in its turn: %t", w.Name, claim.Generation, records.Hash, records.InTurn)
	s.claimed, s.until = s.own, m.time+1+m.IntN(mostSteps)
	s.since = m.time
	if w.Stopped {
		w.Conditions = nil
	} else {
		w.Conditions = says(v1alpha1.ReasonUpdating, false)
	}
	m.write(s, w)
}

// reportRun says how what a member claimed runs.
func (m *model) reportRun(s *sim, turn Turn) {
	w := s.now()
	switch {
	case w.Stopped:
		w.Conditions = nil
		m.write(s, w)
	case m.serves(s) && turn.StaysRefused() && w.Conditions[0].Reason == v1alpha1.ReasonApplyFailed:
	case m.serves(s) && !turn.Admitted:
		m.report(s, v1alpha1.ReasonRolloutPending)
	case m.serves(s):
		m.report(s, v1alpha1.ReasonReady)
	case m.time < s.until && !s.hasServed():
		m.report(s, v1alpha1.ReasonUpdating)
	case m.time < s.until:
		m.report(s, v1alpha1.ReasonUnavailable)
	case s.upstream:
		m.report(s, v1alpha1.ReasonNotAnswering)
	default:
		m.report(s, v1alpha1.ReasonMissingReference)
	}
}

func (m *model) report(s *sim, reason string) {
	w := s.now()
	patient := reason != v1alpha1.ReasonSpecInvalid && reason != v1alpha1.ReasonConfigNotFound
	serving := reason == v1alpha1.ReasonReady || reason == v1alpha1.ReasonRolloutPending
	w.Conditions = says(reason, !serving && (!patient || m.time-s.since > deadline))
	answers := metav1.Condition{Type: v1alpha1.ConditionBackendAnswers, Status: metav1.ConditionTrue}
	if s.upstream {
		answers.Status = metav1.ConditionFalse
	}
	w.Conditions = append(w.Conditions, answers)
	if m.serves(s) {
		s.served, w.Served = w.Claim.Generation, w.Claim.Generation
		w.URL, w.Runtime = "http://"+w.Name, &v1alpha1.RuntimeStatus{Generation: w.Claim.Generation}
	}
	m.write(s, w)
}

// judge holds that a member may take the content now: by what is so, not by what the plan believes.
func (m *model) judge(s *sim, inTurn bool) {
	if !s.everServed() {
		return // has nothing of before
	}
	underway := 0
	for _, other := range m.members {
		w := other.now()
		if other == s || w.Stopped || other.took == "" || other.hasServed() {
			continue
		}
		failed := other.hash() == m.content && w.now(kind) >= Troubled
		if failed && !m.lags {
			m.fails("%s takes %s, with which %s has failed", s.now().Name, m.content, w.Name)
		}
		again := s.took != "" && !s.hasServed() // it is down already
		// What stalled with an earlier content is free to move until it says that it does not stall any more.
		stalled := m.time-other.since > deadline || meta.IsStatusConditionTrue(w.Conditions, v1alpha1.ConditionStalled)
		if other.hash() == m.content || !again && w.now(kind) != Barred && !stalled {
			underway++
		}
	}
	stopped := s.now().Stopped || meta.IsStatusConditionTrue(s.now().Conditions, v1alpha1.ConditionStalled) ||
		!s.hasServed()
	if budget := Budget(len(m.members), m.percent); inTurn && underway >= budget {
		m.fails("%s takes %s beside %d that are under way, and %d may be", s.now().Name, m.content, underway, budget)
	} else if !inTurn && !stopped {
		m.fails("%s takes %s outside the turns", s.now().Name, m.content)
	}
}

// holds fails where one that has served with what it has holds a place or others.
func (m *model) holds() {
	if m.content == "" {
		return
	}
	for _, s := range m.members {
		w := s.now()
		if p := m.phase(w); w.Served >= w.Claim.Generation && (p == Moving || p == Failed || p == Again) {
			m.fails("%s is %s, and has served with what it has", w.Name, p)
		}
	}
}

func (m *model) history() string { return strings.Join(m.said, "\n") }

// pick is a member at random, nil if there is none.
func (m *model) pick() *sim {
	if len(m.members) == 0 {
		return nil
	}
	return m.members[m.IntN(len(m.members))]
}

func (m *model) remove(s *sim) {
	m.members = slices.DeleteFunc(m.members, func(o *sim) bool { return o == s })
}
