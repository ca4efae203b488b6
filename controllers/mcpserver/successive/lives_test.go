package successive

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// A life is that of one server: its user changes the spec at any time, passes see it late or crash, and pods, proxies
// and clients go on beside. After each pass checker judges what was decided; at the end it must come to rest.

// rules are those of a pass, of which a test may break one.
type rules struct {
	make func(Status, Wanted, Observed, time.Time) Plan
	// overwrites lets a pass write over a status that it has not read.
	overwrites bool
	// actsFirst lets a pass act on a plan that was not written.
	actsFirst bool
}

const deadline = 10 * time.Minute

// set is a StatefulSet.
type set struct {
	content v1alpha1.BackendContent
	// up is when its pods are ready, and gone when it is gone that is being deleted.
	up, gone time.Time
}

// proxy is a proxy pod, and calls what it routes to.
type proxy struct {
	since  time.Time
	status Status
	mute   bool
	used   map[string]time.Time
}

// session is one that a client has with content in a slot.
type session struct {
	slot  workload.Slot
	hash  string
	proxy int
	ends  time.Time
}

// life is a server, as it is.
type life struct {
	*rand.Rand
	rules
	now      time.Time
	status   Status
	old      []Status
	want     Wanted
	sets     map[workload.Slot]*set
	proxies  []*proxy
	sessions []session
	seen     []Observed
	// quota refuses pods, and proxiesReady is when the proxies of the claim are.
	quota bool
	// report is what the runner said last of a candidate.
	report       *v1alpha1.CandidateStatus
	proxiesReady time.Time
	check        *checker
	// told is what passes decided.
	told []any
}

// tell keeps what happened, for who asks why.
func (l *life) tell(words ...any) {
	l.told = append(append(l.told, l.now.Format(time.TimeOnly)), append(words, "\n")...)
}

// last is what happened last.
func (l *life) last() string {
	for i, word := range l.told {
		if plan, is := word.(Plan); is {
			l.told[i] = text(plan)
		}
	}
	lines := strings.SplitAfter(fmt.Sprintln(l.told...), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "")
}

func hash(n int) string { return strings.Repeat(fmt.Sprintf("%x", 1+n), 64) }

// Contents whose pods crash, are never scheduled, do not speak MCP, and have lost a tool.
var crashes, waitsForNode, silent, lossy = hash(5), hash(6), hash(7), hash(8)

func newLife(seed uint64, broken rules) *life {
	l := &life{
		Rand: rand.New(rand.NewPCG(seed, 31)), rules: broken, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		sets: map[workload.Slot]*set{},
		want: Wanted{
			UID: "uid", Deadline: deadline, Replicas: 2,
			Spec:    &v1alpha1.RolloutSpec{Strategy: v1alpha1.StrategySuccessive},
			Content: v1alpha1.BackendContent{Hash: hash(0), Generation: 1, Port: 80, Path: "/", Transport: "stdio"},
		},
	}
	for range 2 {
		l.proxies = append(l.proxies, &proxy{since: l.now, used: map[string]time.Time{}})
	}
	l.check = &checker{life: l, ids: map[string]bool{}, promised: map[workload.Slot]time.Time{}}
	return l
}

// live lets a life go on for so many steps, and then until it is at rest.
func (l *life) live(steps int) error {
	for range steps {
		if l.IntN(6) == 0 {
			l.user()
		}
		if l.IntN(10) == 0 {
			l.trouble()
		}
		if err := l.step(true); err != nil {
			return err
		}
	}
	l.want.Halted, l.want.Spec.Paused, l.quota = false, false, false
	l.want.Spec.Approved = l.want.Content.Hash[:10]
	for range 3000 {
		for _, p := range l.proxies {
			p.mute = false
		}
		if err := l.step(false); err != nil {
			return err
		}
		if state := l.check.plan.Verdict.State; l.status.Rollout == nil && (state == Rest || state == Failed) {
			return l.check.rest()
		}
	}
	return fmt.Errorf("never comes to rest: %+v", l.check.plan.Verdict)
}

func (l *life) step(rough bool) error {
	seconds := []int{1, 3, 10, 40, 100, 240}
	l.now = l.now.Add(time.Duration(seconds[l.IntN(len(seconds))]) * time.Second)
	l.runner()
	l.pods()
	l.clients()
	now := l.observe()
	l.seen = append(l.seen, now)
	status, seen := l.status, now
	if rough && l.IntN(8) == 0 {
		seen = l.seen[max(0, len(l.seen)-1-l.IntN(4))]
	}
	if rough && len(l.old) > 0 && l.IntN(10) == 0 {
		status = l.old[max(0, len(l.old)-1-l.IntN(3))]
	}
	return l.pass(status, seen, rough)
}

// pass is one of the operator, which may see what was some time ago, or crash in the middle.
func (l *life) pass(status Status, seen Observed, rough bool) error {
	plan := l.make(status, l.want, seen, l.now)
	next, fresh := stored(plan.Status), reflect.DeepEqual(status, l.status)
	l.tell(plan, "fresh:", fresh)
	if fresh || l.overwrites {
		if err := l.check.decision(status, plan, seen); err != nil {
			return err
		}
	}
	switch {
	case fresh && !reflect.DeepEqual(next, l.status), !fresh && l.overwrites:
		l.old = append(l.old, l.status)
		l.status = next
	case !fresh && !l.actsFirst:
		return nil // a conflict, or what was read before something is deleted differs
	}
	if rough && l.IntN(10) == 0 {
		l.tell("crashes")
		return nil
	}
	for _, slot := range plan.Empty {
		if s := l.sets[slot]; s != nil && s.gone.IsZero() {
			if err := l.check.emptied(slot, s); err != nil {
				return err
			}
			l.tell("empties slot", slot)
			s.gone = l.now.Add(time.Duration(l.IntN(60)) * time.Second)
		}
	}
	return nil
}

// user is what somebody changes.
func (l *life) user() {
	spec := *l.want.Spec
	l.want.Spec = &spec
	defer func() { l.tell("the user wants", l.want.Content.Hash[:1], "halted", l.want.Halted, "as", spec) }()
	switch l.IntN(15) {
	case 0, 1, 2, 3:
		l.claim(hash(l.IntN(4)))
	case 4:
		l.claim([]string{crashes, waitsForNode, silent, lossy}[l.IntN(4)])
	case 5: // other content of the proxy alone
		l.claim(l.want.Content.Hash)
	case 6, 7:
		spec.Paused = !spec.Paused
	case 8:
		l.want.Halted = !l.want.Halted
	case 9:
		spec.Strategy = []v1alpha1.RolloutStrategy{
			v1alpha1.StrategySuccessive, v1alpha1.StrategySuccessive, v1alpha1.StrategyReplace,
		}[l.IntN(3)]
		l.want.Successive = l.want.Successive && spec.Strategy == v1alpha1.StrategySuccessive
	case 10:
		spec.Hold = []v1alpha1.RolloutHold{"", v1alpha1.HoldNever, v1alpha1.HoldAlways}[l.IntN(3)]
	case 11:
		spec.Approved = l.want.Content.Hash[:10]
	case 12:
		spec.SessionsEnd = []*metav1.Duration{nil, {}, {Duration: time.Minute}, {Duration: time.Hour}}[l.IntN(4)]
	case 13:
		l.want.Replicas = int32(1 + l.IntN(3))
	case 14: // back, since what has the calls does not serve
		if r := l.status.Rollout; r != nil && r.From != nil && l.status.switched() {
			if s := l.sets[workload.Slot(l.status.Active.Slot)]; s != nil {
				s.up = l.now.Add(time.Duration(l.IntN(300)) * time.Second)
			}
			l.claim(r.From.Hash)
		}
	}
}

// claim is a new workload generation.
func (l *life) claim(hash string) {
	active := l.status.Active
	serves := active != nil && l.slot(workload.Slot(active.Slot)).Ready > 0 &&
		l.slot(workload.Slot(active.Slot)).Content.Hash == active.Hash
	l.want.Content.Generation++
	if hash != l.want.Content.Hash {
		l.want.Content.Hash, l.want.Asked = hash, l.want.Content.Generation
	}
	l.want.Successive = serves && !l.want.Halted && hash != active.Hash &&
		l.want.Spec.Strategy == v1alpha1.StrategySuccessive
	l.proxiesReady = l.now.Add(time.Duration(l.IntN(90)) * time.Second)
}

// trouble is what happens by itself.
func (l *life) trouble() {
	p := l.IntN(len(l.proxies))
	switch l.IntN(9) {
	case 0, 1:
		l.proxies[p].mute = !l.proxies[p].mute
	case 2:
		l.proxies[p] = &proxy{since: l.now, used: map[string]time.Time{}, status: l.status}
	case 3:
		l.quota = !l.quota
	case 4, 7, 8: // a node goes
		slot := workload.Slots[l.IntN(2)]
		if within(l.status, v1alpha1.StepCheck) {
			slot = workload.Slot(l.status.Rollout.Target.Slot)
		}
		if s := l.sets[slot]; s != nil {
			s.up = l.now.Add(time.Duration(l.IntN(120)) * time.Second)
		}
	case 5: // somebody removes it by a PUT of the status
		if l.IntN(4) == 0 {
			l.wipe(Status{Active: l.status.Active})
		}
	case 6: // a restore
		if l.IntN(8) == 0 {
			l.wipe(Status{})
		}
	}
}

func (l *life) wipe(left Status) {
	l.tell("the status is lost")
	l.old, l.status = append(l.old, l.status), left
	clear(l.check.promised)
	l.check.wiped()
}

// runner makes of the status what the claimed content asks for.
func (l *life) runner() {
	active, mine := l.status.Active, l.want.Content
	if active == nil || l.IntN(3) == 0 {
		return
	}
	slot := workload.Slot(active.Slot)
	switch rollout := l.status.Rollout; {
	case active.Hash == mine.Hash, rollout == nil && !l.want.Successive:
		l.apply(slot, mine)
	default:
		l.apply(slot, active.BackendContent)
		if rollout != nil && rollout.Target.Hash == mine.Hash && l.status.switched() {
			l.apply(workload.Slot(rollout.Target.Slot), mine)
		}
		if rollout != nil && rollout.Target.Hash == mine.Hash && len(rollout.Steps) > 1 &&
			rollout.Steps[1].State != v1alpha1.StepWaiting {
			l.apply(workload.Slot(rollout.Target.Slot), mine)
		}
	}
}

func (l *life) apply(slot workload.Slot, content v1alpha1.BackendContent) {
	switch s := l.sets[slot]; {
	case s == nil:
		l.sets[slot] = &set{content: content, up: l.now.Add(time.Duration(l.IntN(120)) * time.Second)}
	case !s.gone.IsZero():
	case s.content.Hash != content.Hash: // in its place: its sessions end with its pods
		s.content, s.up = content, l.now.Add(time.Duration(l.IntN(120))*time.Second)
		l.forget(slot)
	default:
		s.content.Generation = max(s.content.Generation, content.Generation)
	}
}

// forget ends the sessions in a slot.
func (l *life) forget(slot workload.Slot) {
	delete(l.check.promised, slot)
	var left []session
	for _, s := range l.sessions {
		if s.slot != slot {
			left = append(left, s)
		}
	}
	l.sessions = left
}

// pods end.
func (l *life) pods() {
	for slot, s := range l.sets {
		if !s.gone.IsZero() && !l.now.Before(s.gone) {
			delete(l.sets, slot)
			l.forget(slot)
		}
	}
}

// clients begin sessions at what a proxy calls, and use those that they have.
func (l *life) clients() {
	for i, p := range l.proxies {
		if l.IntN(3) > 0 || p.status.Active == nil {
			p.status = l.status
		}
		active := p.status.Active
		if active == nil {
			continue
		}
		slot := workload.Slot(active.Slot)
		if s := l.slot(slot); s.Ready > 0 && s.Content.Hash == active.Hash && l.IntN(4) == 0 {
			l.sessions = append(l.sessions, session{
				slot: slot, hash: active.Hash, proxy: i, ends: l.now.Add(time.Duration(l.IntN(180)) * time.Minute),
			})
		}
	}
	var left []session
	for _, s := range l.sessions {
		if l.now.Before(s.ends) {
			l.proxies[s.proxy].used[s.hash] = l.now
			left = append(left, s)
		}
	}
	l.sessions = left
}

// slot is what is seen of one.
func (l *life) slot(slot workload.Slot) Slot {
	s := l.sets[slot]
	if s == nil {
		return Slot{}
	}
	seen := Slot{Stands: true, Terminating: !s.gone.IsZero(), Content: s.content, RolledOut: true}
	up := !l.now.Before(s.up)
	switch {
	case s.content.Hash == crashes && up:
		seen.Failure = new(conditions.False(v1alpha1.ReasonCrashLoop, "it ends"))
	case s.content.Hash == waitsForNode:
		seen.Failure = new(conditions.False(v1alpha1.ReasonUnschedulable, "no node"))
	case !up && l.quota:
		s.up = s.up.Add(l.now.Sub(s.up) + time.Second)
		seen.Quota = new(conditions.False(v1alpha1.ReasonPodRefused, "exceeded quota"))
	case up && !seen.Terminating:
		seen.Ready = l.want.Replicas
	}
	seen.RolledOut = seen.Ready > 0
	return seen
}

func (l *life) observe() Observed {
	seen := Observed{Slots: map[workload.Slot]Slot{}, ProxiesReady: !l.now.Before(l.proxiesReady)}
	for _, slot := range workload.Slots {
		seen.Slots[slot] = l.slot(slot)
	}
	for _, p := range l.proxies {
		seen.Proxies = append(seen.Proxies, l.answer(p))
	}
	if r := l.status.Rollout; r != nil {
		t := seen.Slots[workload.Slot(r.Target.Slot)]
		if t.Ready > 0 && t.Content.Hash == r.Target.Hash && l.IntN(3) > 0 {
			l.report = &v1alpha1.CandidateStatus{Hash: r.Target.Hash, Answers: r.Target.Hash != silent}
			if r.Target.Hash == lossy {
				l.report.Lost = 1
			}
		}
	}
	seen.Candidate = l.report
	return seen
}

func (l *life) answer(p *proxy) Answer {
	if p.mute || p.status.Active == nil {
		return Answer{At: l.now}
	}
	active := p.status.Active
	r := &runconfig.Routing{ServerUID: "uid", Since: p.since, Active: &runconfig.RoutedContent{
		Slot: active.Slot, Hash: active.Hash, Generation: active.Generation,
	}}
	contents := []v1alpha1.BackendContent{active.BackendContent}
	if rollout := p.status.Rollout; rollout != nil {
		contents = append(contents, rollout.Target)
		if rollout.From != nil {
			contents = append(contents, *rollout.From)
		}
	}
	for _, c := range contents {
		r.Contents = append(r.Contents, runconfig.ContentUse{Slot: c.Slot, Hash: c.Hash, SessionSeen: p.used[c.Hash]})
	}
	return Answer{Routing: r, At: l.now}
}

// howMany is how many lives are lived: more in make soak.
func howMany(t *testing.T) int {
	t.Helper()
	text, set := os.LookupEnv("FREEHOLD_ROLLOUT_LIVES")
	if !set {
		return 300
	}
	lives, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("FREEHOLD_ROLLOUT_LIVES=%q: write a number", text)
	}
	return lives
}

func TestMake_Lives(t *testing.T) {
	lives := howMany(t)
	reached := map[string]int{}
	for seed := range uint64(lives) {
		l := newLife(seed, rules{make: Make})
		if err := l.live(150); err != nil {
			t.Fatalf("life %d: %v\n%s", seed, err, l.last())
		}
		for what, n := range l.check.reached {
			reached[what] += n
		}
	}
	t.Log(reached)
	for _, what := range []string{
		"Rest", "Moving", "Held", "Paused", "Failed", "WaitsForDrain", "WaitsForSlot", "Ending", "switched", "moved",
		v1alpha1.ReasonContentChanged, v1alpha1.ReasonStrategyChanged, v1alpha1.ReasonHalted,
		string(v1alpha1.RolloutSucceeded), string(v1alpha1.RolloutFailed),
	} {
		if reached[what] < lives/20 {
			t.Errorf("%s was reached %d times in %d lives", what, reached[what], lives)
		}
	}
}
