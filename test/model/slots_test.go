package model

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// besides are runs of rollouts: content comes up beside what serves, is checked, held or approved, fails or gets the
// calls, and is undone, while operators restart, and while proxies of other content live on that have read no status
// since. Clients call, and have sessions.
var besides = mode{
	steps: 500, holds: holds{oneIn: 8, steps: 10}, rounds: 60, round: time.Minute,
	prepare: (*scenario).allSlots, step: (*scenario).stepOfSlots, end: (*scenario).endOfSlots,
	around: func(p *scenario) {
		p.roll()
		p.collect()
		p.runWorkloads()
	},
}

// defaultRollouts is how many of these runs there are unless FREEHOLD_ROLLOUT_RUNS says so.
const defaultRollouts = 3

// certainRollouts is what happens in so many runs, whatever the seed.
var certainRollouts = []string{
	"rollout begins", "calls move", "rollout ends: Succeeded", "held for an approval", "sessions end a drain",
	"slot 1 serves again",
}

func TestNoOrderOfRolloutsBreaksWhatServes(t *testing.T) {
	runs, seed := kit.HowMany(t, "FREEHOLD_ROLLOUT_RUNS", defaultRollouts), kit.Seed(t)
	t.Logf("%d runs from FREEHOLD_SEED=%d", runs, seed)
	tally := map[string]int{}
	for i := range runs {
		for what, n := range holdsTo(t, seed+uint64(i), besides).tally {
			tally[what] += n
		}
	}
	t.Log(tally)
	for _, what := range certainRollouts {
		if tally[what] == 0 && runs >= 20*defaultRollouts {
			t.Errorf("FREEHOLD_SEED=%d: nothing of this kind happened: %s", seed, what)
		}
	}
}

// slots are both places of a run's backend, and what its clients have of them. A nil one is of a run of other things.
type slots struct {
	scenario *scenario
	// spec is what the user asks for.
	spec map[string]any
	// sessions are the hashes of the contents that clients have sessions of.
	sessions []string
	// since is when calls moved last, and left the content that they left, nil for none.
	since time.Time
	left  *v1alpha1.BackendContent
	// sessionsEnd is the shortest that was asked for since, halted says that no pods were asked for at some time since,
	// and other is when other content was claimed since, zero for never.
	sessionsEnd time.Duration
	halted      bool
	other       time.Time
}

// proxy is what a runner's process has of clients.
type proxy struct {
	born time.Time
	// seen is when clients used sessions, by the hash of their content.
	seen map[string]time.Time
	// calls is the step until which a call is on its way to the content of a hash.
	calls map[string]int
	// asked is the start of the backend that was asked last as a candidate.
	asked backend.Start
}

// allSlots makes a server, two operators, and the runners of four pods.
func (p *scenario) allSlots() {
	p.reviewer = p.connect(p.runner())
	p.slots = &slots{scenario: p, spec: map[string]any{
		"image": "server:0", "replicas": int64(2),
		"rollout": map[string]any{"strategy": "Successive", "sessionsEnd": "2m0s"},
	}}
	p.gate = &gate{scenario: p, revisions: map[key]standing{}, pods: map[string]string{}}
	p.newProcess("operator", plane.OperatorConfig(), operator)
	p.newProcess("old operator", plane.OperatorConfig(), operator)
	for i := range 4 {
		p.newProcess(fmt.Sprint("runner ", i), p.runner(), runner)
	}
	p.slots.ask()
}

// ask writes the spec, and what the shared configuration of the run is to be.
func (s *slots) ask() {
	server := &unstructured.Unstructured{Object: map[string]any{"spec": s.spec}}
	server.SetGroupVersionKind(contract.MCPServer.GroupVersionKind)
	server.SetNamespace(namespace)
	server.SetName(s.scenario.name)
	s.scenario.others.apply(gitops, server.DeepCopy())
}

// stepOfSlots lets one thing happen.
func (p *scenario) stepOfSlots() {
	switch n := p.random.IntN(100); {
	case n < 62:
		// Most passes go on for more than one request, or nothing would come to an end.
		for a := p.pick((*process).wakeful); a != nil && a.advance() && p.now >= a.held && p.random.IntN(4) > 0; {
			continue
		}
	case n < 67:
		if a := p.pick((*process).dead); a != nil {
			a.begin()
		}
	case n < 68:
		if a := p.pick((*process).alive); a != nil {
			a.kill()
		}
	case n < 69:
		if a := p.pick(func(a *process) bool { return a.alive() && a.isRunner() && !a.terminated }); a != nil {
			a.stop()
		}
	case n < 71: // it reads no status for a while
		if a := p.pick((*process).alive); a != nil && a.turn == nil && p.heldProcess() == nil {
			a.held, a.about = p.now+p.random.IntN(60), key{}
		}
	case n < 80:
		p.slots.clients()
	case n < 82:
		p.slots.change()
	case n < 83:
		if o := p.slots.standing(); o != nil {
			p.others.attempt("delete", p.others.Delete(p.t.Context(), about(o)))
		}
	case n < 84:
		if o := p.target(); o != nil {
			p.others.label(o)
		}
	case n < 97:
		p.collect()
		p.runWorkloads()
	default:
		p.clock = p.clock.Add(time.Duration(1+p.random.IntN(5)) * time.Minute)
	}
}

// change has the user ask for something else.
func (s *slots) change() {
	r, plan := s.scenario.random, s.status().Rollout
	rollout := s.spec["rollout"].(map[string]any)
	n := r.IntN(16)
	switch {
	case plan == nil && n < 10 || n < 2: // other content, perhaps that of before
		s.spec["image"] = fmt.Sprintf("server:%d", r.IntN(4))
	case plan != nil && n < 8:
		rollout["approved"] = plan.Target.Hash[:10]
	case n < 10:
		rollout["hold"] = []any{"Never", "LostTools", "Always"}[r.IntN(3)]
	case n < 11: // other content of the proxy alone
		s.spec["proxy"] = map[string]any{"allowedOrigins": []any{fmt.Sprintf("https://%d.example.com", r.IntN(3))}}
	case n < 12:
		s.spec["replicas"] = int64(1 + r.IntN(3))
	case n < 13:
		s.spec["suspend"] = r.IntN(3) == 0
	case n < 14:
		rollout["paused"] = r.IntN(3) == 0
	case n < 15:
		rollout["sessionsEnd"] = []any{"2m0s", "30m0s"}[r.IntN(2)]
	default:
		rollout["strategy"] = []any{"Successive", "Successive", "Successive", "Replace"}[r.IntN(4)]
	}
	s.ask()
}

// standing draws an object of either slot, nil where there is none.
func (s *slots) standing() *unstructured.Unstructured {
	return kit.Pick(s.scenario.random, s.scenario.world.standing(), func(o *unstructured.Unstructured) bool {
		return s.scenario.slotOf(key{o.GetKind(), o.GetName()}) != 0
	})
}

// status is that of the server.
func (s *slots) status() v1alpha1.MCPServerStatus { return s.scenario.serverStatus() }

// routes is what a proxy has read of the status of its server.
func (a *process) routes() v1alpha1.MCPServerStatus {
	server := &v1alpha1.MCPServer{}
	a.scenario.typed(a.cache.shown[key{contract.MCPServer.Kind, a.scenario.name}], server)
	return server.Status
}

// contents are those to which a status has calls or sessions go.
func contents(status v1alpha1.MCPServerStatus) (all []v1alpha1.BackendContent) {
	if status.Active == nil {
		return nil
	}
	all = append(all, status.Active.BackendContent)
	if status.Rollout != nil && status.Rollout.From != nil {
		all = append(all, *status.Rollout.From)
	}
	return all
}

// clients have one client do something by one proxy.
func (s *slots) clients() {
	p := s.scenario
	a := p.pick(func(a *process) bool { return a.isRunner() && a.alive() && !a.terminated })
	if a == nil {
		return
	}
	all := contents(a.routes())
	if len(all) == 0 {
		return
	}
	switch n := p.random.IntN(6); {
	case n < 2:
		s.sessions = append(s.sessions, all[0].Hash)
		a.proxy.seen[all[0].Hash] = p.clock
	case n < 3:
		a.proxy.calls[all[0].Hash] = p.now + p.random.IntN(30)
	case len(s.sessions) == 0:
	case n < 4: // it has ended
		s.sessions = s.sessions[1:]
	default:
		i := p.random.IntN(len(s.sessions))
		for _, content := range all {
			if content.Hash == s.sessions[i] {
				a.proxy.seen[content.Hash] = p.clock
			}
		}
	}
}

// routing is what a proxy tells.
func (a *process) routing() runconfig.Routing {
	p, status := a.scenario, a.routes()
	told := runconfig.Routing{ServerUID: string(p.server().GetUID()), Since: a.proxy.born}
	if active := status.Active; active != nil {
		told.Active = &runconfig.RoutedContent{Slot: active.Slot, Hash: active.Hash, Generation: active.Generation}
	}
	all := contents(status)
	if status.Rollout != nil {
		all = append(all, status.Rollout.Target)
	}
	for _, content := range all {
		use := runconfig.ContentUse{Slot: content.Slot, Hash: content.Hash, SessionSeen: a.proxy.seen[content.Hash]}
		if p.now < a.proxy.calls[content.Hash] {
			use.InFlight = 1
		}
		told.Contents = append(told.Contents, use)
	}
	return told
}

// watch lets an operator ask the proxies.
func (s *slots) watch(operator *process, reader *snapshot.Reader) {
	if s == nil {
		return
	}
	reader.Live = proxies{operator.client, operator}
	reader.AskProxy = func(_ context.Context, pod *corev1.Pod) (runconfig.Routing, error) {
		if s.scenario.plant.trusting {
			return s.acknowledges(), nil
		}
		for _, a := range s.scenario.processes {
			if a.name == pod.Name && s.scenario.now >= a.held {
				return a.routing(), nil
			}
		}
		return runconfig.Routing{}, kit.ErrReset
	}
}

// acknowledges is what each proxy would tell that has read the latest status, and sees no sessions.
func (s *slots) acknowledges() runconfig.Routing {
	status := s.status()
	told := runconfig.Routing{ServerUID: string(s.scenario.server().GetUID()), Since: s.scenario.clock.Add(-time.Hour)}
	for i, content := range contents(status) {
		if i == 0 {
			told.Active = &runconfig.RoutedContent{Slot: content.Slot, Hash: content.Hash, Generation: content.Generation}
		}
		told.Contents = append(told.Contents, runconfig.ContentUse{Slot: content.Slot, Hash: content.Hash})
	}
	return told
}

// proxies reads the pods of proxies that run, and all else from the API server.
type proxies struct {
	client.Client
	operator *process
}

// List reads.
func (r proxies) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	pods, ok := list.(*corev1.PodList)
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if !ok {
		return r.Client.List(ctx, list, opts...)
	}
	if options.Limit == 0 { // of all pods those of backends are looked at, of which the sets' numbers tell
		return nil
	}
	p := r.operator.scenario
	r.operator.quiet = p.slots.isQuiet()
	for _, a := range p.slots.runners() {
		labels := workload.Labels(p.name, workload.ComponentProxy)
		pods.Items = append(pods.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: a.name, Labels: labels},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	return nil
}

// asks has a runner ask its content where that gets no calls yet, and tell what it answers.
func (s *slots) asks(a *process, r *backend.Runner, start backend.Start) {
	if s == nil || start.Rollout == "" || start == a.proxy.asked {
		return
	}
	seen := v1alpha1.CandidateStatus{Answers: true}
	a.proxy.asked, a.woken = start, true
	switch s.scenario.random.IntN(6) {
	case 0:
		seen = v1alpha1.CandidateStatus{Reason: v1alpha1.ReasonNotMCP, Message: "it answers HTML"}
		a.proxy.asked = backend.Start{} // it is asked again
	case 1, 2:
		seen.Lost, seen.LostTools = 1, []string{"search"}
	}
	r.LearnCandidate(seen)
}

// endOfSlots lets a last content be rolled out, and looks at what stands.
func (p *scenario) endOfSlots() {
	p.disorder = false
	p.note("nobody interferes any more")
	p.processes[1].kill()
	p.slots.spec = map[string]any{
		"image": "server:last", "replicas": int64(2),
		"rollout": map[string]any{"strategy": "Successive", "hold": "Never", "sessionsEnd": "2m0s"},
	}
	p.slots.ask()
	if p.settle() {
		p.slots.rest()
		p.quiet()
	}
}
