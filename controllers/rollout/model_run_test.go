package rollout

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// event is what happens to a member, or to all of them.
type event struct {
	what string
	do   func(*model, *sim)
}

// gentle are those in which a member takes a content at most once, and keeps its place
// while it is not done: whatever a cache shows, the budget holds.
var gentle = []event{
	{"its pods restart", func(m *model, s *sim) { s.until = max(s.until, m.time+1+m.IntN(mostSteps)) }},
	{"another leader", func(*model, *sim) {}}, // remembers nothing, as nobody does
	{"its own spec changes", func(_ *model, s *sim) { s.own++ }},
}

var rough = slices.Concat(gentle, []event{
	{"the operator is upgraded", func(m *model, _ *sim) {
		for _, s := range m.members {
			s.own++
		}
	}},
	{"its spec is wrong", func(_ *model, s *sim) { s.invalid, s.own = true, s.own+1 }},
	{"its spec is corrected", func(_ *model, s *sim) { s.invalid, s.own = false, s.own+1 }},
	{"its claims are refused", func(_ *model, s *sim) { s.refused = true }},
	{"its claims are accepted", func(_ *model, s *sim) { s.refused = false }},
	{"it is suspended", func(m *model, s *sim) { m.stops(s, true) }},
	{"it resumes", func(m *model, s *sim) { m.stops(s, false) }},
	{"it is deleted", func(m *model, s *sim) { m.remove(s) }},
	{"it is made", func(m *model, _ *sim) {
		if m.content != "" && len(m.members) < 12 {
			m.born()
		}
	}},
	{"its server elsewhere is down", func(_ *model, s *sim) { s.upstream = true }},
	{"its server elsewhere is back", func(_ *model, s *sim) { s.upstream = false }},
	{"time passes", func(m *model, _ *sim) { m.rest(deadline) }},
	{"the configuration changes", func(m *model, _ *sim) { m.says(m.IntN(2) == 0) }},
	{"the configuration is corrected", func(m *model, _ *sim) { m.says(false) }},
	{"the configuration is deleted", func(m *model, _ *sim) { m.content = "" }},
})

func (m *model) stops(s *sim, stopped bool) {
	w := s.now()
	if w.Stopped == stopped {
		return
	}
	w.Stopped = stopped
	w.Conditions = []metav1.Condition{}
	s.until, s.since = m.time+1+m.IntN(mostSteps), m.time
	m.write(s, w)
}

// says has the configuration say something that it never said.
func (m *model) says(broken bool) {
	m.changes++
	m.content = fmt.Sprintf("c%d", m.changes)
	m.broken[m.content] = broken
}

// rest lets time pass, in which all have their passes.
func (m *model) rest(steps int) {
	for range steps {
		m.tick()
		for _, s := range m.members {
			m.pass(s)
			m.holds()
		}
	}
}

// run plays a random life, and ends it with a content that is good, of which all that can take it are to have it.
func run(seed uint64, by rules, lags bool) error {
	m := &model{rules: by, Rand: rand.New(rand.NewPCG(seed, 2)), broken: map[string]bool{}, lags: lags}
	m.percent = 1 + m.IntN(60)
	m.says(false)
	for range 1 + m.IntN(9) {
		m.born()
	}
	m.rest(2 * mostSteps)
	events := rough
	if lags {
		events = gentle
		for _, s := range m.members {
			s.written = s.written[len(s.written)-1:] // a member that never served is not in the order yet
		}
		m.says(false)
	}
	for range 300 {
		if s := m.pick(); s != nil && m.IntN(6) == 0 {
			e := events[m.IntN(len(events))]
			m.tell("%s: %s", s.now().Name, e.what)
			e.do(m, s)
		}
		m.tick()
		if s := m.pick(); s != nil {
			m.pass(s)
		}
		if m.holds(); m.wrong != nil {
			return fmt.Errorf("seed %d: %w\n%s", seed, m.wrong, m.history())
		}
	}
	if m.ends(); m.wrong != nil {
		return fmt.Errorf("seed %d: at the end: %w\n%s", seed, m.wrong, m.history())
	}
	return nil
}

// ends corrects the configuration, once those who cannot take anything have been so for longer than their deadline. It
// may as well take rights away: nobody is to wait for them.
func (m *model) ends() {
	for _, s := range m.members {
		s.until = m.time
	}
	if m.content == "" {
		m.says(false)
	}
	m.rest(2 * deadline)
	m.says(false)
	m.tell("the configuration says its last word")
	m.rest((len(m.members) + 1) * (deadline + 2*mostSteps))
	able := func(s *sim) bool { return !s.invalid && !s.refused }
	var members []Member
	whole := true
	for _, s := range m.members {
		members = append(members, Member{s.now().Name, m.phase(s.now())})
		whole = whole && able(s) && !s.upstream
		if able(s) && s.hash() != m.content {
			m.fails("%s never takes %s", s.now().Name, m.content)
		}
	}
	f := RolledOut(members, m.percent)
	if m.wrong != nil {
		m.wrong = fmt.Errorf("%w: %v, %v", m.wrong, members, f)
	}
	if whole && f.Status != metav1.ConditionTrue {
		m.fails("all have it, and it says %v", f)
	}
	if f.Status != metav1.ConditionTrue && !slices.ContainsFunc(m.members, func(s *sim) bool {
		return names(f.Message, s.now().Name) && (!able(s) || s.upstream)
	}) {
		m.fails("who is in the way is not named: %v", f)
	}
}

func names(message, name string) bool { return strings.Contains(message, strconv.Quote(name)) }

// answersNo reports whether the server of a workload does not answer now.
func answersNo(w Workload) bool {
	return meta.IsStatusConditionFalse(w.Conditions, v1alpha1.ConditionBackendAnswers)
}

// howMany is how many lives are played: more in make soak.
func howMany(t *testing.T) (first uint64, lives int) {
	t.Helper()
	lives = 60
	if text := os.Getenv("FREEHOLD_ROLLOUT_LIVES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		lives = n
	}
	if os.Getenv("FREEHOLD_EXPLORE") != "" {
		first = rand.Uint64N(1 << 40)
	}
	if text := os.Getenv("FREEHOLD_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seed, 1
	}
	t.Logf("FREEHOLD_SEED=%d and the %d that follow", first, lives-1)
	return first, lives
}

func TestWhateverHappensARolloutKeepsItsPromises(t *testing.T) {
	first, lives := howMany(t)
	for seed := first; seed < first+uint64(lives); seed++ {
		for _, lags := range []bool{false, true} {
			if err := run(seed, sound(), lags); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Each of the faults that this model was made for is found, and soon.
func TestTheModelFindsThePlantedFaults(t *testing.T) {
	for what, plant := range map[string]func(*rules){
		"one that cannot take anything keeps its place": func(r *rules) {
			r.phase = func(_ Workload, f Facts) Phase {
				if !f.Has && f.InTurn && !f.Served {
					return Moving
				}
				return f.Phase()
			}
		},
		"the end of a rollout is not recorded": func(r *rules) {
			r.phase = func(w Workload, f Facts) Phase {
				f.Served = f.Served && !answersNo(w)
				return f.Phase()
			}
		},
		"a change of its own takes the present content": func(r *rules) { r.ownTakes = true },
		"one that is down does not wait": func(r *rules) {
			r.phase = func(_ Workload, f Facts) Phase {
				if p := f.Phase(); p != Down {
					return p
				}
				return Apart
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			by := sound()
			plant(&by)
			for seed := range uint64(400) {
				if err := run(seed, by, false); err != nil {
					t.Logf("found: %.160s", err)
					return
				}
			}
			t.Error("it was not found")
		})
	}
}
