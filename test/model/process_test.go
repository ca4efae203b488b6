package model

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/backend"
	sharedconfigs "github.com/freehold-dev/freehold/controllers/configs"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	workloads "github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// process is one of ours: an operator, or the runner of a proxy pod.
type process struct {
	scenario *scenario
	name     string
	// config is who it is to the API server, by the run's wire, and client writes and reads as that.
	config *rest.Config
	client client.Client
	// start makes it anew, with nothing remembered, and returns its pass; nil where it cannot run now.
	start func(*process) pass

	// What there is while it runs. SIGTERM ends ctx.
	pass       pass
	cache      *lagging
	turn       *kit.Turn
	ctx        context.Context
	terminate  context.CancelFunc
	terminated bool
	// live is what it read from the API server in this pass, and known the
	// versions that it was last told of, by reading and by writing.
	live  map[key]*unstructured.Unstructured
	known map[key]string
	// failed is how its last pass ended.
	failed error
	// woken says that something happened since the last pass began, and due when it asked to be woken.
	woken bool
	due   time.Time
	// held is the step before which the schedule leaves the process alone, with a write of about in its hand.
	held  int
	about key
	// revision is a runner's, and learned says that it knows what the backend has.
	revision revision.Revision
	learned  bool
	// proxy is what a runner's process has of clients, and quiet what an operator's has seen of them in this pass.
	proxy proxy
	quiet bool
	// run is what the pod of a runner was made with, and env its environment, where the run makes them up.
	run runconfig.RunConfig
	env environment
}

// pass makes a process act once, and returns when it is to act again, 0 for not before something happens.
type pass func(context.Context) (time.Duration, error)

// newProcess makes a process that does not run yet.
func (p *scenario) newProcess(name string, as *rest.Config, start func(*process) pass) *process {
	process := &process{scenario: p, name: name, start: start, terminate: func() {}}
	process.config = p.wired(process, as)
	process.client = p.connect(process.config)
	p.processes = append(p.processes, process)
	return process
}

// operator is an operator that believes to lead.
func operator(process *process) pass {
	p := process.scenario
	process.cache.labelled = true
	now := func() time.Time { return p.clock }
	applier := controllers.NewApplier(process.client, process.client)
	applier.Now = now
	if err := applier.Impersonate(process.config, kit.SystemNamespace, contract.Controllers()...); err != nil {
		p.broke(err)
	}
	reader := snapshot.NewReader(workloads.Servers(), process.cache, process.client)
	p.slots.watch(process, reader)
	reconciler := mcpserver.New(reader, applier, &events.FakeRecorder{}, podtemplate.Release{RunnerImage: "runner"})
	reconciler.Now = now
	configs := sharedconfigs.New(registry.All()[p.kind], process.cache, process.client, applier, &events.FakeRecorder{})
	configs.Now = now
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: p.name}}
	return func(ctx context.Context) (time.Duration, error) {
		result, err := reconciler.Reconcile(ctx, request)
		of, failed := configs.Reconcile(ctx, request)
		return apply.ShortestWait(result.RequeueAfter, of.RequeueAfter), errors.Join(err, failed)
	}
}

// runner is the runner of a pod of the proxy as it stands now.
func runner(process *process) pass {
	rev, config := process.scenario.rolledOut()
	if config == nil {
		return nil
	}
	process.revision = rev
	return process.runs(*config, rev, nil)
}

// runs is the pass of a runner that finds a run config in its file, and a revision or an error in its environment.
func (a *process) runs(file runconfig.RunConfig, env revision.Revision, envErr error) pass {
	p := a.scenario
	now := func() time.Time { return p.clock }
	live := seeing{a.client, a}
	applier := controllers.NewApplier(a.client, live)
	applier.Now = now
	r := &backend.Runner{
		Reader: seeing{a.cache, a}, Live: live, Applier: applier, Run: file, Env: env, EnvErr: envErr,
		Now: now, ProxySums: func() ([]string, error) { return []string{"of the key"}, nil },
	}
	p.plant.environment(r)
	facts := backend.Facts{Answers: kit.Answers}
	// Replicas may learn different things; they must not quarrel about it.
	if a.learned = p.random.IntN(2) == 0; a.learned {
		facts.Tools = new(int32(p.random.IntN(3)))
	}
	r.Learn(facts)
	return func(ctx context.Context) (time.Duration, error) {
		report, err := r.Pass(ctx)
		p.slots.asks(a, r, report.Start)
		if report.Waiting != "" {
			p.note("%s: waits: %s", a.name, report.Waiting)
		}
		return report.Again, err
	}
}

// rolledOut is what the pods of the proxy are made with now, nil if they cannot start.
func (p *scenario) rolledOut() (revision.Revision, *runconfig.RunConfig) {
	proxy := p.child(contract.Deployment, workload.ProxyName(p.name))
	if proxy == nil {
		return revision.Revision{}, nil
	}
	annotations, _, _ := unstructured.NestedStringMap(proxy.Object, "spec", "template", "metadata", "annotations")
	rev, err := revision.Of(annotations)
	if err != nil || !rev.Valid() {
		return revision.Revision{}, nil
	}
	made := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(proxy.Object, made); err != nil {
		p.broke(err)
		return revision.Revision{}, nil
	}
	text := podtemplate.Carried(&made.Spec.Template)
	if text == "" {
		file := p.child(contract.ConfigMap, workload.RunConfigName(p.name, rev))
		if file == nil {
			return revision.Revision{}, nil
		}
		text, _, _ = unstructured.NestedString(file.Object, "data", runconfig.FileName)
	}
	config, err := runconfig.Decode([]byte(text))
	if err != nil {
		return revision.Revision{}, nil
	}
	return rev, &config
}

func (a *process) alive() bool { return a.pass != nil }
func (a *process) dead() bool  { return a.pass == nil }
func (a *process) busy() bool  { return a.turn != nil }

// begin starts the process, with a cache that is full.
func (a *process) begin() {
	a.cache = &lagging{process: a, shown: map[key]*unstructured.Unstructured{}}
	a.live, a.known = nil, map[key]string{}
	a.proxy = proxy{born: a.scenario.clock, seen: map[string]time.Time{}, calls: map[string]int{}}
	a.cache.hears(1)
	a.due, a.woken, a.terminated = time.Time{}, true, false
	a.ctx, a.terminate = context.WithCancel(a.scenario.t.Context())
	if a.pass = a.start(a); a.pass != nil {
		a.scenario.note("%s: starts with workload generation %d", a.name, a.revision.Generation)
	}
}

// kill is SIGKILL.
func (a *process) kill() {
	a.scenario.note("%s: SIGKILL", a.name)
	if a.turn != nil {
		a.scenario.tally["fault SIGKILL in a pass"]++
		a.turn.Kill()
	}
	a.ended()
}

// stop is SIGTERM: a pass on its way goes on to its end.
func (a *process) stop() {
	a.scenario.note("%s: SIGTERM", a.name)
	a.terminated = true
	a.terminate()
	if a.turn == nil {
		a.ended()
	}
}

func (a *process) ended() {
	a.terminate()
	a.pass, a.turn, a.held = nil, nil, 0
}

// wakeful reports whether the process has something to do: a pass on its way,
// or news, and is not held. News may reach its cache now.
func (a *process) wakeful() bool {
	p := a.scenario
	switch {
	case !a.alive() || p.now < a.held:
		return false
	case a.turn != nil:
		return true
	}
	if a.cache.hears(2) {
		a.woken = true
	}
	return a.woken || !a.due.IsZero() && !p.clock.Before(a.due)
}

// advance lets the process send its next request, or begins its next pass. It reports whether the pass goes on.
func (a *process) advance() bool {
	var waiting bool
	if a.turn == nil {
		waiting = a.beginPass()
	} else {
		waiting = a.turn.Step()
	}
	if !waiting {
		a.turn = nil
		if a.terminated {
			a.ended()
		}
	}
	return waiting
}

func (a *process) beginPass() (waiting bool) {
	a.woken, a.due = false, time.Time{}
	a.live, a.quiet = map[key]*unstructured.Unstructured{}, false
	stale := false
	for _, k := range a.scenario.world.order {
		a.known[k] = versionOf(a.cache.sees(k))
		stale = stale || versionOf(a.cache.shown[k]) != versionOf(a.scenario.world.stands[k])
	}
	if stale {
		a.scenario.tally["pass on a stale cache"]++
	}
	pass, ctx := a.pass, a.scenario.plant.context(a.ctx)
	_, waiting = kit.BeginTurn(func(t *kit.Turn) {
		a.turn = t
		again, err := pass(ctx)
		a.failed = err
		if a.woken = a.woken || err != nil; again > 0 {
			a.due = a.scenario.clock.Add(again)
		}
		a.scenario.note("%s: pass ends, again in %s: %s", a.name, again, outcome(err))
	})
	return waiting
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return said(err.Error())
}

// sees notes what the process read from the API server.
func (a *process) sees(k key, o *unstructured.Unstructured) {
	a.live[k] = o
	a.known[k] = versionOf(o)
}

// answered notes what the answer to a write tells the process: of that write, and
// not of those of others that it had not read.
func (a *process) answered(o *operation) {
	if a.known[o.of] == versionOf(o.before) {
		a.known[o.of] = o.answer.GetResourceVersion()
	}
	if o.Verb == "patch" && o.record() != nil {
		// A take-over decides on what it has moved itself, and applies in any case.
		a.live[o.of], a.known[o.of] = o.answer, ""
	}
}

// read is what the process knows of an object by its last look, nil for that it does not exist.
func (a *process) read(k key) *unstructured.Unstructured {
	if o, looked := a.live[k]; looked {
		return o
	}
	return a.cache.sees(k)
}

// hold leaves a process, often, where it is: between a decision and its write.
// The races are about what others do meanwhile, so one is held at a time.
func (p *scenario) hold(a *process, about key) {
	a.about = about
	holds := p.mode.holds
	concerned := holds.kind == "" || holds.kind == about.kind
	if concerned && p.heldProcess() == nil && p.disorder && p.random.IntN(holds.oneIn) == 0 {
		a.held = p.now + p.random.IntN(holds.steps)
		p.tally["held before a write"]++
	}
}

// heldProcess is the one that is held now, nil if there is none.
func (p *scenario) heldProcess() *process {
	for _, a := range p.processes {
		if p.now < a.held {
			return a
		}
	}
	return nil
}

func labelsOf(o *unstructured.Unstructured) labels.Set { return o.GetLabels() }

func (a *process) String() string { return fmt.Sprintf("%s at %d", a.name, a.revision.Generation) }
