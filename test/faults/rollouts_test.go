package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// incumbents are the pods of a backend, none of which may be missing in a rollout.
const incumbents = 2

// mortals are the processes of one kind, of which each dies at so many writes from some moment on.
type mortals struct {
	writes int

	mu    sync.Mutex
	begun bool
	born  []*doom
}

// wire is that of the next process.
func (m *mortals) wire(config *rest.Config) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := newDoom(0, false)
	if m.begun {
		d.dieAfter(m.writes)
	}
	m.born = append(m.born, d)
	kit.Through(config, d.carry)
	return d.died
}

// begin makes all mortal.
func (m *mortals) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun = true
	for _, d := range m.born {
		d.dieAfter(m.writes)
	}
}

// deaths are the writes after which processes died.
func (m *mortals) deaths() (points []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.born {
		if d.dead() {
			points = append(points, d.last)
		}
	}
	return points
}

// sessions are what proxies say of those with the content before.
type sessions int

const (
	over    sessions = iota
	open             // one is in use
	unknown          // no proxy answers
)

// rolling is a server that serves one content, and is asked for another beside it.
type rolling struct {
	s                  *kit.Env
	op                 *operator
	operators, runners mortals
	kit                *kit.Runners
	// content is the tag of the image that is asked for.
	content  string
	replicas int32
	// rollout and more are of the spec, as YAML.
	rollout, more string

	mu       sync.Mutex
	sessions sessions
}

// newRolling is one that serves its first content.
func newRolling(writes int) *rolling {
	GinkgoHelper()
	r := &rolling{
		s: newEnv(), operators: mortals{writes: writes}, runners: mortals{writes: writes},
		content: "one", replicas: incumbents, rollout: "strategy: Successive",
	}
	r.op = operate(r.s, func(o *operator) {
		o.wire, o.options.AskProxy, o.options.Workload.RunnerImage = r.operators.wire, r.answer, r.image("runner")
	})
	r.kit = r.s.RunProxies()
	r.kit.Wire = func(config *rest.Config) { r.runners.wire(config) }
	r.ask()
	r.settled()
	return r
}

// image is one of this story alone, by which its containers fare.
func (r *rolling) image(tag string) string {
	return "registry.example.com/" + r.s.Namespace + ":" + tag
}

// ask writes the spec, as a person would who tries again.
func (r *rolling) ask() {
	GinkgoHelper()
	Eventually(func() error {
		_, err := r.s.ApplyErr(git, kit.Server("echo", r.image(r.content),
			fmt.Sprintf("replicas: %d\nrollout: {%s}\n%s", r.replicas, r.rollout, r.more)))
		return err
	}).Should(Succeed(), "asking")
}

// answer is that of a proxy, which goes by the status.
func (r *rolling) answer(ctx context.Context, _ *corev1.Pod) (runconfig.Routing, error) {
	r.mu.Lock()
	now := r.sessions
	r.mu.Unlock()
	live := r.server()
	if err := r.s.Client.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil || now == unknown {
		return runconfig.Routing{}, errors.Join(err, errors.New("it does not answer"))
	}
	told := runconfig.Routing{ServerUID: string(live.UID), Since: time.Now().Add(-time.Hour)}
	active := live.Status.Active
	told.Active = &runconfig.RoutedContent{Slot: active.Slot, Hash: active.Hash, Generation: active.Generation}
	if rollout := live.Status.Rollout; rollout != nil && rollout.From != nil {
		use := runconfig.ContentUse{Slot: rollout.From.Slot, Hash: rollout.From.Hash}
		if now == open {
			use.InFlight = 1
		}
		told.Contents = []runconfig.ContentUse{use}
	}
	return told, nil
}

func (r *rolling) server() *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: r.s.Namespace}}
}

// say is what proxies say from now on. The operator looks again since somebody labels the server.
func (r *rolling) say(now sessions) {
	GinkgoHelper()
	r.mu.Lock()
	r.sessions = now
	r.mu.Unlock()
	Eventually(func() error {
		_, err := r.s.ApplyErr("person", "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\n"+
			fmt.Sprintf("metadata: {name: echo, labels: {sessions: s%d}}\n", now))
		return err
	}).Should(Succeed(), "labelling")
}

// pausedAt are the steps of a rollout in their order, and what keeps one from its end until it is called again.
var pausedAt = []struct {
	step string
	hold func(*rolling) (release func())
}{
	{v1alpha1.StepProxies, (*rolling).holdProxies},
	{v1alpha1.StepCandidate, (*rolling).holdCandidate},
	{v1alpha1.StepCheck, (*rolling).holdCheck},
	{v1alpha1.StepAcknowledge, func(r *rolling) func() { return r.holdSessions(unknown) }},
	{v1alpha1.StepDrain, func(r *rolling) func() { return r.holdSessions(open) }},
	{v1alpha1.StepTeardown, (*rolling).holdTeardown},
}

func (r *rolling) holdProxies() func() {
	plane.Kubelet.Image(r.image("runner"), kit.NeverReady())
	return func() { plane.Kubelet.Image(r.image("runner"), kit.Runs()) }
}

func (r *rolling) holdCandidate() func() {
	plane.Kubelet.Image(r.image("two"), kit.NeverReady())
	return func() { plane.Kubelet.Image(r.image("two"), kit.Runs()) }
}

func (r *rolling) holdCheck() func() {
	r.kit.SeeCandidates(v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}})
	return func() { r.kit.SeeCandidates(v1alpha1.CandidateStatus{Answers: true}) }
}

func (r *rolling) holdSessions(now sessions) func() {
	r.mu.Lock()
	r.sessions = now
	r.mu.Unlock()
	return func() { r.say(over) }
}

func (r *rolling) holdTeardown() func() {
	return plane.Kubelet.HoldTermination(func(pod *corev1.Pod) bool {
		return pod.Namespace == r.s.Namespace && pod.Labels[workload.LabelComponent] == workload.Slot1.Component()
	})
}

// reaches waits until the rollout is in a step.
func (r *rolling) reaches(step string) {
	GinkgoHelper()
	live := r.server()
	r.s.Await(live, "the rollout is at "+step, func() error {
		if rollout := live.Status.Rollout; rollout != nil {
			for _, s := range rollout.Steps {
				if s.Name == step && s.State == v1alpha1.StepActive {
					return nil
				}
			}
		}
		return fmt.Errorf("the rollout is %+v", live.Status.Rollout)
	})
}

// edits are what a person does while a rollout is in a step.
var edits = []struct {
	name string
	// do is done while the step is held, and then once it is not, if there is more.
	do, then func(*rolling)
	// came waits for what it all comes to.
	came func(*rolling)
}{
	{"nothing", func(*rolling) {}, nil, (*rolling).settled},
	{"newer content", func(r *rolling) { r.content = "three"; r.ask() }, nil, (*rolling).settled},
	{"back to the incumbent", func(r *rolling) { r.content = "one"; r.ask() }, nil, (*rolling).settled},
	{"scale", func(r *rolling) { r.replicas++; r.ask() }, nil, (*rolling).settled},
	{"suspend", func(r *rolling) { r.more = "suspend: true"; r.ask() }, (*rolling).unsuspend, (*rolling).settled},
	{"other strategy", func(r *rolling) { r.rollout = "strategy: Replace"; r.ask() }, nil, (*rolling).settled},
	{
		"other content of the proxy",
		func(r *rolling) { r.more = "proxy: {allowedOrigins: ['https://example.com']}"; r.ask() },
		nil, (*rolling).settled,
	},
	{"delete", deletes(metav1.DeletePropagationBackground), nil, (*rolling).gone},
	{"pause", (*rolling).pause, (*rolling).resume, (*rolling).settled},
	{"delete in the foreground", deletes(metav1.DeletePropagationForeground), nil, (*rolling).gone},
	{"delete without its children", deletes(metav1.DeletePropagationOrphan), nil, (*rolling).orphaned},
}

func deletes(policy metav1.DeletionPropagation) func(*rolling) {
	return func(r *rolling) { r.s.Delete(r.server(), client.PropagationPolicy(policy)) }
}

func (r *rolling) pause() {
	GinkgoHelper()
	r.rollout = "strategy: Successive, paused: true"
	r.ask()
	live := r.server()
	r.s.Await(live, "the pause is seen", func() error { return seesSpec(live) })
}

func (r *rolling) resume() {
	GinkgoHelper()
	before := r.server()
	r.s.Read(before)
	r.op.rests()
	after := r.server()
	r.s.Read(after)
	Expect(after.Status.Active).To(Equal(before.Status.Active), "in a pause")
	Expect(after.Status.Rollout).NotTo(BeNil(), "in a pause")
	r.rollout = "strategy: Successive"
	r.ask()
}

// unsuspend waits until nothing runs, and lets the server run again.
func (r *rolling) unsuspend() {
	GinkgoHelper()
	r.stopped()
	r.more = ""
	r.ask()
}

// cycle is one rollout that is held in a step, in which a person changes something and all processes begin to die.
func cycle(step, change, writes int) (deaths []string) {
	GinkgoHelper()
	at, what := pausedAt[step], edits[change]
	By(fmt.Sprintf("%s at %s, each process dies at write %d", what.name, at.step, writes))
	r := newRolling(writes)
	seen := r.record()
	release := sync.OnceFunc(at.hold(r))
	defer release() // what is held would outlast the story
	r.content = "two"
	r.ask()
	r.reaches(at.step)
	r.operators.begin()
	r.runners.begin()
	what.do(r)
	release()
	if what.then != nil {
		what.then(r)
	}
	what.came(r)
	r.s.Must(seen.check(), what.name+" at "+at.step)
	return append(r.operators.deaths(), r.runners.deaths()...)
}

// lifetimes are after how many writes each process dies: where it is one, a process that knows nothing goes on after
// each single write of a rollout.
func lifetimes() []int {
	if kit.Exploring() {
		return []int{1, 2, 3}
	}
	return []int{1}
}

// told says that a change at a step is part of make test, of which each change and each step has at least one.
func told(step, change int) bool { return kit.Exploring() || (step+change)%len(pausedAt) == 0 }

var _ = DescribeTable("A rollout comes to the same end whenever processes die, and whatever is changed at step",
	func(step int) {
		turns := make(chan struct{}, together)
		var all sync.WaitGroup
		var mu sync.Mutex
		points := map[string]int{}
		for change := range edits {
			for _, writes := range lifetimes() {
				if !told(step, change) {
					continue
				}
				turns <- struct{}{}
				all.Go(func() {
					defer func() { <-turns }()
					defer GinkgoRecover()
					deaths := cycle(step, change, writes)
					mu.Lock()
					defer mu.Unlock()
					for _, point := range deaths {
						points[point]++
					}
				})
			}
		}
		all.Wait()
		GinkgoWriter.Printf("killed at %d points:\n%s", len(points), table(points))
		Expect(points).NotTo(BeEmpty())
	},
	Entry(pausedAt[0].step, 0), Entry(pausedAt[1].step, 1), Entry(pausedAt[2].step, 2), Entry(pausedAt[3].step, 3),
	Entry(pausedAt[4].step, 4), Entry(pausedAt[5].step, 5),
)
