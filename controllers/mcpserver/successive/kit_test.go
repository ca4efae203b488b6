package successive

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// scene is what a pass finds.
type scene struct {
	Status
	want Wanted
	seen Observed
	now  time.Time
}

// of is content whose hash is a letter, of a generation.
func of(letter string, generation int64) v1alpha1.BackendContent {
	return v1alpha1.BackendContent{
		Hash: strings.Repeat(letter, 64), Generation: generation,
		Port: 8080, Path: "/mcp", Transport: v1alpha1.TransportStdio,
	}
}

func in(slot int32, content v1alpha1.BackendContent) v1alpha1.BackendContent {
	content.Slot = slot
	return content
}

// up is a slot with content whose pods are ready.
func up(content v1alpha1.BackendContent) Slot {
	return Slot{Stands: true, Content: content, RolledOut: true, Ready: 2}
}

// asks is a server that serves a in slot 1, and is asked for other content beside it.
func asksFor(letter string, generation int64) *scene {
	return &scene{
		Status: Status{Active: &v1alpha1.ActiveBackend{
			BackendContent: in(1, of("a", 1)), Since: metav1.NewTime(now.Add(-time.Hour)),
		}},
		want: Wanted{
			UID: "uid", Content: of(letter, generation), Successive: true, Replicas: 2, Deadline: 10 * time.Minute,
			Spec: &v1alpha1.RolloutSpec{Strategy: v1alpha1.StrategySuccessive},
		},
		seen: Observed{Slots: map[workload.Slot]Slot{workload.Slot1: up(of("a", 1))}, ProxiesReady: true},
		now:  now,
	}
}

// at is a server whose rollout from a in slot 1 to b in slot 2 is in a step, and waits there.
func at(step string) *scene {
	s := asksFor("b", 2)
	s.seen.ProxiesReady = false
	for _, next := range names {
		s.pass()
		if s.step().Name == step {
			return s
		}
		switch next {
		case v1alpha1.StepProxies:
			s.seen.ProxiesReady = true
		case v1alpha1.StepCandidate:
			s.seen.Slots[workload.Slot2] = up(of("b", 2))
		case v1alpha1.StepCheck:
			s.seen.Candidate = &v1alpha1.CandidateStatus{Hash: s.Rollout.Target.Hash, Answers: true}
		case v1alpha1.StepAcknowledge:
			s.answers(s.now.Add(-time.Hour), s.now)
		case v1alpha1.StepDrain:
			s.answers(s.now.Add(-time.Hour), time.Time{})
		}
	}
	panic(step)
}

// answers are those of a proxy that routes as the status says, and has seen a session of the content before.
func (s *scene) answers(since, session time.Time) {
	r := &runconfig.Routing{ServerUID: "uid", Since: since, Active: &runconfig.RoutedContent{
		Slot: s.Active.Slot, Hash: s.Active.Hash, Generation: s.Active.Generation,
	}, Contents: []runconfig.ContentUse{{Hash: s.Active.Hash}}}
	if s.Rollout != nil && s.Rollout.From != nil {
		r.Contents = append(r.Contents, runconfig.ContentUse{Hash: s.Rollout.From.Hash, SessionSeen: session})
	}
	s.seen.Proxies = []Answer{{Routing: r, At: s.now}}
}

// edit changes a scene.
func (s *scene) edit(edits ...func(*scene)) *scene {
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// pass makes a plan, and stores it.
func (s *scene) pass() Plan {
	plan := Make(s.Status, s.want, s.seen, s.now)
	s.Status = stored(plan.Status)
	return plan
}

// text is what a plan says, in short.
func text(plan Plan) string {
	short := func(c v1alpha1.BackendContent) string {
		return fmt.Sprintf("%d:%.1s%d", c.Slot, c.Hash, c.Generation)
	}
	said := []string{plan.Verdict.State.String(), short(plan.Active.BackendContent)}
	if r := plan.Rollout; r != nil {
		rollout := "to " + short(r.Target)
		if r.From != nil {
			rollout += " from " + short(*r.From)
		}
		step := plan.step()
		rollout += " " + step.Name
		if step.Reason != "" {
			rollout += " " + step.Reason
		}
		said = append(said, rollout)
	}
	if last := plan.Last; last != nil {
		said = append(said, strings.TrimSpace(fmt.Sprintf("%s %.1s%d#%d %s",
			last.State, last.Hash, last.Generation, last.Attempt, last.Reason)))
	}
	if len(plan.Empty) > 0 {
		said = append(said, fmt.Sprintf("empty %d", plan.Empty))
	}
	return strings.Join(said, "; ")
}

// row is what a plan says that is made in a scene.
type row struct {
	*scene
	want string
}

func (r row) run(t *testing.T) {
	t.Helper()
	plan := r.pass()
	if got := text(plan); got != r.want {
		t.Errorf("got  %s\nwant %s", got, r.want)
	}
	for _, named := range plan.slots() {
		if slices.Contains(plan.Empty, named) {
			t.Errorf("empties slot %d, which it names", named)
		}
	}
}

func run(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, r.run)
	}
}
