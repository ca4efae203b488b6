package model

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// runnersOnly are runs of two to four runners of one server, with generation, environment and file varied
// independently. No operator, role or policy is there to keep one of them from what the gate must.
var runnersOnly = mode{
	steps: 80, holds: holds{oneIn: 2, steps: 20, kind: contract.StatefulSet.Kind},
	rounds: fewRounds, round: longRound,
	prepare: (*scenario).onlyRunners, step: (*scenario).stepOfRunners,
	around: func(*scenario) {}, end: (*scenario).endOfRunners,
}

// defaultRuns is how many of them there are unless FREEHOLD_GATE_RUNS says so.
const defaultRuns = 25

func TestNoOrderOfRunnersBreaksTheGate(t *testing.T) {
	runs, seed := kit.HowMany(t, "FREEHOLD_GATE_RUNS", defaultRuns), kit.Seed(t)
	t.Logf("%d runs from FREEHOLD_SEED=%d", runs, seed)
	withoutPolicies(t, func(t *testing.T) {
		for i := range runs {
			holdsTo(t, seed+uint64(i), runnersOnly)
		}
	})
}

// environment is what a runner finds in its environment variables.
type environment int

const (
	asFile environment = iota
	absent
	empty
	unparsable
	negative
	zero
	anotherNumber
	anotherHash
	// asFileWithOtherContent is a file whose content is not what its revision says.
	asFileWithOtherContent
	environments
)

func (e environment) String() string {
	return [...]string{
		"as the file", "absent", "empty", "unparsable", "negative", "zero", "another number", "another hash",
		"as a file of other content",
	}[e]
}

// content is what a server runs at a generation. variant is another content that claims the same number. Two
// generations in turn differ in the proxy's half alone: in what a shared configuration says. The others differ in port
// and transport, too.
func (p *scenario) content(generation int64, variant string) runconfig.RunConfig {
	half := generation / 2
	run := runconfig.RunConfig{
		Version: runconfig.Version,
		Server:  runconfig.Server{Namespace: namespace, Name: p.name, UID: string(p.server().GetUID())},
		Backend: runconfig.Backend{
			Image: "server", Args: []string{strconv.FormatInt(half, 10), variant},
			Port: int32(8000 + half), Path: "/mcp", Transport: "streamable-http",
		},
		Proxy: runconfig.Proxy{
			Port: 9000, Path: "/mcp",
			Authorization: &runconfig.Authorization{Policies: []runconfig.Policy{{
				Name: "all", Text: fmt.Sprintf("permit(principal, action, resource == Tool::\"%d\");", generation),
			}}},
		},
		Rendering: runconfig.Rendering{Proxy: "proxy", Backend: fmt.Sprint(half, variant)},
	}
	if half > 0 {
		run.Backend.Transport, run.Backend.Bridge = "sse", &runconfig.Bridge{Image: "runner"}
	}
	hash, err := run.ContentHash()
	if err != nil {
		p.broke(err)
	}
	run.Workload = runconfig.Workload{Generation: generation, Hash: hash}
	return run
}

// onlyRunners makes up the server and its runners.
func (p *scenario) onlyRunners() {
	p.gate = &gate{
		scenario: p, slot: workload.Slots[p.random.IntN(2)], revisions: map[key]standing{}, pods: map[string]string{},
	}
	server := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": "server"}}}
	server.SetGroupVersionKind(contract.MCPServer.GroupVersionKind)
	server.SetNamespace(namespace)
	server.SetName(p.name)
	p.others.apply(gitops, server)
	if p.gate.slot != workload.Slot1 {
		p.point()
	}
	for i := range 2 + p.random.IntN(3) {
		a := p.newProcess(fmt.Sprint("runner ", i), plane.Config, ofContent)
		a.run, a.env = p.content(int64(1+p.random.IntN(3)), []string{"a", "a", "b"}[p.random.IntN(3)]), p.environment()
		if i > 0 && p.random.IntN(3) == 0 {
			a.run = p.processes[i-1].run // a replica
		}
	}
}

// point has the status say that calls go to the gate's slot, to content that all of the run's replace in its place.
func (p *scenario) point() {
	intent := about(p.server())
	intent.Object["status"] = map[string]any{"active": map[string]any{
		"slot": int64(p.gate.slot), "hash": "pointer", "generation": int64(1000), "port": int64(1), "path": "/",
		"transport": "sse", "since": metav1.Now().UTC().Format(time.RFC3339),
	}}
	p.others.attempt("point", p.others.Status().Apply(p.t.Context(), client.ApplyConfigurationFromUnstructured(intent),
		client.FieldOwner(contract.MCPServerPlan), client.ForceOwnership))
}

// environment draws what a runner finds in its environment.
func (p *scenario) environment() environment {
	if p.random.IntN(4) != 0 {
		return asFile
	}
	return environment(p.random.IntN(int(environments)))
}

// ofContent is the runner of a pod that was made of a content, whatever stands now.
func ofContent(a *process) pass {
	a.revision = revision.Revision{Generation: a.run.Workload.Generation, Hash: a.run.Workload.Hash}
	a.scenario.note("%s: has %q, environment %s", a.name, a.run.Backend.Args, a.env)
	file := a.run
	if a.env == asFileWithOtherContent {
		file.Backend.Args = append([]string{"other"}, file.Backend.Args...)
	}
	rev, err := a.found()
	return a.runs(file, rev, err)
}

// found is the revision that the process finds in its environment.
func (a *process) found() (revision.Revision, error) {
	number, hash := strconv.FormatInt(a.revision.Generation, 10), a.revision.Hash
	switch a.env {
	case absent:
		return revision.Revision{}, errors.New("not set")
	case empty:
		number = ""
	case unparsable:
		number = "0x" + number
	case negative:
		number = "-" + number
	case zero:
		number = "0"
	case anotherNumber:
		number += "0"
	case anotherHash:
		hash = "ffff" + hash[4:]
	}
	return revision.Parse(number, hash)
}

// stepOfRunners lets one thing happen.
func (p *scenario) stepOfRunners() {
	n := p.random.IntN(100)
	if p.now < p.gate.calm {
		n = 0
	}
	switch {
	case n < 78:
		if a := p.pick((*process).wakeful); a != nil {
			a.advance()
		}
	case n < 83:
		if a := p.pick((*process).dead); a != nil {
			p.startOf(a)
		}
	case n < 88:
		p.rollout()
	case n < 91:
		if a := p.pick((*process).alive); a != nil && !a.terminated {
			a.stop()
		}
	case n < 94:
		if a := p.pick((*process).alive); a != nil {
			a.kill()
		}
	case n < 95:
		p.claim(p.processes[p.random.IntN(len(p.processes))].run)
	case n < 98:
		p.remove()
	case n < 99:
		p.strip()
	default:
		p.tamper()
	}
}

// rollout replaces two runners by newer ones at once: of two generations, two
// replicas of one, or, after a number was claimed twice, two contents of one.
func (p *scenario) rollout() {
	p.random.Shuffle(len(p.processes), func(i, j int) { p.processes[i], p.processes[j] = p.processes[j], p.processes[i] })
	next := int64(1)
	if claimed := p.serverStatus().Workload; claimed != nil {
		next = claimed.Generation + 1
	}
	runs := []runconfig.RunConfig{p.content(next, "a"), p.content(next+1, "a")}
	switch p.random.IntN(4) {
	case 0:
		p.claim(runs[0])
		p.claim(runs[1])
		runs[1] = p.content(next, "b")
	case 1:
		runs[1] = runs[0]
	}
	if p.random.IntN(3) == 0 {
		p.remove()
	}
	for i, run := range runs {
		a := p.processes[i]
		if a.alive() {
			a.kill()
		}
		a.run, a.env = run, p.environment()
		p.startOf(a)
	}
	p.gate.calm = p.now + p.random.IntN(20)
}

// startOf starts a pod of new content, which the operator has claimed before.
func (p *scenario) startOf(a *process) {
	p.claim(a.run)
	a.begin()
}

// claim is what the operator does before it starts a pod of new content.
func (p *scenario) claim(run runconfig.RunConfig) {
	if claimed := p.serverStatus().Workload; claimed != nil && claimed.Generation >= run.Workload.Generation {
		return
	}
	intent := about(p.server())
	claim := map[string]any{"generation": run.Workload.Generation, "hash": run.Workload.Hash}
	intent.Object["status"] = map[string]any{"workload": claim}
	p.others.attempt("claim", p.others.Status().Apply(p.t.Context(), client.ApplyConfigurationFromUnstructured(intent),
		client.FieldOwner(contract.MCPServerWorkload), client.ForceOwnership))
}

// backendObjects are what runners write, nil where there is none.
func (p *scenario) backendObjects() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		p.child(contract.StatefulSet, p.gate.slot.Name(p.name)),
		p.child(contract.Service, p.gate.slot.Name(p.name)),
		p.child(contract.Service, p.gate.slot.HeadlessName(p.name)),
	}
}

// remove deletes one of the backend's objects, the StatefulSet more often.
func (p *scenario) remove() {
	if o := p.backendObjects()[max(0, p.random.IntN(4)-1)]; o != nil {
		p.others.attempt("delete", p.others.Delete(p.t.Context(), about(o)))
	}
}

// strip takes the revision from one of the backend's objects.
func (p *scenario) strip() {
	if o := p.backendObjects()[p.random.IntN(3)]; o != nil {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null,%q:null}}}`, revision.AnnotationGeneration,
			revision.AnnotationHash)
		p.others.attempt("merge patch", p.others.Patch(p.t.Context(), about(o),
			client.RawPatch(types.MergePatchType, patch), client.FieldOwner(patcher)))
	}
}

// tamper takes fields of the backend from their manager.
func (p *scenario) tamper() {
	name := fmt.Sprint("tampered-", p.random.IntN(100))
	for _, o := range p.backendObjects()[:2] {
		if o == nil {
			return
		}
		intent := about(o)
		intent.SetUID(o.GetUID())
		intent.SetLabels(map[string]string{workload.LabelName: name})
		if o.GetKind() == contract.StatefulSet.Kind {
			container := map[string]any{"name": podtemplate.ServerContainer, "args": []any{"tampered"}}
			pod := map[string]any{"containers": []any{container}}
			intent.Object["spec"] = map[string]any{"template": map[string]any{"spec": pod}}
		}
		p.others.apply(argocd, intent, client.ForceOwnership)
	}
}

// endOfRunners lets the living runners come to rest, and looks at what stands.
func (p *scenario) endOfRunners() {
	p.disorder = false
	p.note("nobody interferes any more")
	if !p.settle() {
		return
	}
	p.gate.rest()
	for _, a := range p.processes {
		if !a.alive() {
			continue
		}
		// What stands is in its cache, so that it needs no request.
		a.cache.hears(1)
		if a.advance() {
			p.checker.found(asked, "%s at rest", a.name)
		}
	}
}
