package gate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/test/kit"
)

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
		"as the file", "absent", "empty", "unparsable", "negative", "zero", "another number", "another hash", "as a file of other content",
	}[e]
}

// process is a runner's pod: its process may be killed, stopped and restarted.
type process struct {
	scenario *scenario
	name     string
	run      runconfig.RunConfig
	env      environment

	// The process, while there is one.
	runner     *backend.Runner
	cache      *lagging
	pass       *kit.Turn
	ctx        context.Context
	terminate  context.CancelFunc
	terminated bool
	// learned says that it knows something of the backend.
	learned bool
	// held is the step before which the schedule leaves the process alone.
	held int
	// woken says that something happened since the last pass began.
	woken bool
}

// content is what a server runs at a generation. variant is another content
// that claims the same number. Two generations in turn differ in the proxy's
// half alone: in what a shared configuration says.
func (p *scenario) content(generation int64, variant string) runconfig.RunConfig {
	half := generation / 2
	run := runconfig.RunConfig{
		Version: runconfig.Version,
		Server:  runconfig.Server{Namespace: namespace, Name: p.name, UID: string(p.server.UID)},
		Backend: runconfig.Backend{
			Image: "server", Args: []string{strconv.FormatInt(half, 10), variant},
			Port: int32(8000 + half), Path: "/mcp", Transport: "streamable-http",
		},
		Proxy: runconfig.Proxy{Port: 9000, Path: "/mcp", Authorization: &runconfig.Authorization{Policies: []runconfig.Policy{{
			Name: "all", Text: fmt.Sprintf("permit(principal, action, resource == Tool::\"%d\");", generation),
		}}}},
		Rendering: runconfig.Rendering{Proxy: "proxy", Backend: fmt.Sprint(half, variant)},
	}
	hash, err := run.ContentHash()
	if err != nil {
		p.t.Fatal(err)
	}
	run.Workload = runconfig.Workload{Generation: generation, Hash: hash}
	return run
}

// addProcesses makes up two to four runners.
func (p *scenario) addProcesses() {
	for i := range 2 + p.random.IntN(3) {
		a := &process{scenario: p, name: fmt.Sprintf("runner %d", i), env: p.environment()}
		a.run = p.content(int64(1+p.random.IntN(3)), []string{"a", "a", "b"}[p.random.IntN(3)])
		if i > 0 && p.random.IntN(3) == 0 {
			a.run = p.processes[i-1].run // a replica
		}
		p.processes = append(p.processes, a)
	}
}

// environment draws what a runner finds in its environment.
func (p *scenario) environment() environment {
	if p.random.IntN(4) != 0 {
		return asFile
	}
	return environment(p.random.IntN(int(environments)))
}

// sound reports whether the runner may write at all.
func (a *process) sound() bool { return a.env == asFile }

func (a *process) revision() revision.Revision {
	return revision.Revision{Generation: a.run.Workload.Generation, Hash: a.run.Workload.Hash}
}

// found is the revision that the process finds in its environment.
func (a *process) found() (revision.Revision, error) {
	number, hash := strconv.FormatInt(a.run.Workload.Generation, 10), a.run.Workload.Hash
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

// file is the run config that the process reads.
func (a *process) file() runconfig.RunConfig {
	run := a.run
	if a.env == asFileWithOtherContent {
		run.Backend.Args = append([]string{"other"}, run.Backend.Args...)
	}
	return run
}

// start starts the process, with nothing remembered and a cache that is full.
func (a *process) start() {
	p := a.scenario
	p.claim(a.run)
	p.note("%s: starts with %q, environment %s", a.name, a.run.Backend.Args, a.env)
	connection := &connection{Client: admin, process: a}
	a.cache = &lagging{process: a, shown: map[string]client.Object{}}
	a.cache.hears(1)
	now := func() time.Time { return p.clock }
	applier := apply.New(connection, connection, converter, contract.Freehold())
	applier.Now = now
	a.runner = &backend.Runner{Reader: a.cache, Live: connection, Applier: applier, Run: a.file(), Now: now}
	a.runner.Env, a.runner.EnvErr = a.found()
	p.plant.environment(a.runner)
	a.terminated, a.woken = false, true
	if a.learned = p.random.IntN(2) == 0; a.learned {
		// Replicas may learn different things; they must not quarrel about it.
		a.runner.Learn(backend.Facts{Answers: kit.Answers, Tools: new(int32(p.random.IntN(3)))})
	}
	a.ctx, a.terminate = context.WithCancel(p.t.Context())
}

func (a *process) alive() bool { return a.runner != nil }
func (a *process) dead() bool  { return a.runner == nil }
func (a *process) busy() bool  { return a.pass != nil }

// wakeful reports whether the process has something to do: a pass on its way,
// or news, and is not held. News may reach its cache now.
func (a *process) wakeful() bool {
	switch {
	case !a.alive() || a.scenario.now < a.held:
		return false
	case a.pass != nil:
		return true
	}
	return a.cache.hears(2) || a.woken
}

// advance lets the process send its next request, or begins its next pass.
func (a *process) advance() {
	var waiting bool
	if a.pass == nil {
		a.woken = false
		runner, ctx := a.runner, a.scenario.plant.context(a.ctx)
		a.pass, waiting = kit.BeginTurn(func(t *kit.Turn) {
			a.pass = t
			report, err := runner.Pass(ctx)
			a.woken = a.woken || err != nil
			a.scenario.note("%s: pass ends: %v %s %q %v", a.name, report.Decision, report.Finding.Reason, report.Waiting, short(err))
		})
	} else {
		waiting = a.pass.Step()
	}
	if waiting {
		return
	}
	a.pass = nil
	if a.terminated {
		a.end()
	}
}

// turn waits until the process may send its next request. A request of a
// process that is being stopped is not sent: its context has ended.
func (a *process) turn(ctx context.Context) error {
	a.pass.Wait()
	return ctx.Err()
}

// stop is SIGTERM: a pass on its way goes on to its end.
func (a *process) stop() {
	a.scenario.note("%s: SIGTERM", a.name)
	a.terminated = true
	a.terminate()
	if a.pass == nil {
		a.end()
	}
}

// kill is SIGKILL.
func (a *process) kill() {
	a.scenario.note("%s: SIGKILL", a.name)
	if a.pass != nil {
		a.pass.Kill()
		a.pass = nil
	}
	a.terminate()
	a.end()
}

func (a *process) end() { a.runner, a.cache = nil, nil }
