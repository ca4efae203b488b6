package gate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	// steps is how much happens before a run is left to come to rest.
	steps = 80
	// rounds is how many passes each runner may need to come to rest.
	rounds = 10
	// round is how long one takes: by then whoever fought for fields is forgotten.
	round = time.Hour
)

// scenario is one run.
type scenario struct {
	t         *testing.T
	name      string
	random    *rand.Rand
	plant     plant
	now       int // counts steps
	calm      int // the step before which nobody interferes with a rollout
	clock     time.Time
	server    *v1alpha1.MCPServer
	processes []*process
	stands    map[string]client.Object
	checker   *checker
	// disorder is whether answers get lost.
	disorder bool
	script   strings.Builder
}

// scenarios counts runs, so that those of one seed have names of their own.
var scenarios int

// runScenario runs the scenario of a seed to its end.
func runScenario(t *testing.T, seed uint64, plant plant) *scenario {
	kit.Announce(t, seed)
	scenarios++
	p := &scenario{
		t: t, name: fmt.Sprintf("run-%d", scenarios),
		random: rand.New(rand.NewPCG(seed, 0)), plant: plant,
		clock:  time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		stands: map[string]client.Object{},
	}
	p.checker = &checker{scenario: p, revisions: map[string]standing{}, pods: map[string]string{}}
	p.create()
	p.addProcesses()
	p.disorder = true
	for range steps {
		if p.found() {
			break
		}
		p.now++
		p.clock = p.clock.Add(time.Second)
		p.step()
	}
	p.disorder = false
	if !p.found() {
		p.settle()
	}
	for _, a := range p.processes {
		if a.alive() {
			a.kill()
		}
	}
	return p
}

// found reports whether the run has shown what was planted.
func (p *scenario) found() bool { return p.plant.want != "" && p.checker.violated(p.plant.want) }

func (p *scenario) note(format string, args ...any) {
	fmt.Fprintf(&p.script, format+"\n", args...)
}

// step lets one thing happen.
func (p *scenario) step() {
	n := p.random.IntN(100)
	if p.now < p.calm {
		n = 0
	}
	switch {
	case n < 78:
		if a := p.pick((*process).wakeful); a != nil {
			a.advance()
		}
	case n < 83:
		if a := p.pick((*process).dead); a != nil {
			a.start()
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

// hold leaves a runner, often, where it is: between a decision and its write.
// The races are about what others do meanwhile, so one is held at a time.
func (p *scenario) hold(a *process) {
	for _, other := range p.processes {
		if p.now < other.held {
			return
		}
	}
	if p.disorder && p.random.IntN(2) == 0 {
		a.held = p.now + p.random.IntN(20)
	}
}

// rollout replaces two runners by newer ones at once: of two generations, two
// replicas of one, or, after a number was claimed twice, two contents of one.
func (p *scenario) rollout() {
	p.random.Shuffle(len(p.processes), func(i, j int) { p.processes[i], p.processes[j] = p.processes[j], p.processes[i] })
	next := int64(1)
	if claimed := p.status().Workload; claimed != nil {
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
		a.start()
	}
	p.calm = p.now + p.random.IntN(20)
}

// pick chooses one of the runners for which is holds, nil if there is none.
func (p *scenario) pick(is func(*process) bool) *process { return kit.Pick(p.random, p.processes, is) }

// settle lets the living runners make passes, in turns, until a whole round
// writes nothing that began with what stands; then the checker looks at it. A pass
// that was under way before has decided on older news.
func (p *scenario) settle() {
	p.note("nothing happens any more")
	for range rounds {
		p.clock = p.clock.Add(round)
		before, late := p.script.Len(), slices.ContainsFunc(p.processes, (*process).busy)
		for _, a := range p.processes {
			if a.alive() && a.pass == nil {
				a.cache.hears(1)
				a.advance()
			}
		}
		for a := p.pick((*process).busy); a != nil; a = p.pick((*process).busy) {
			a.advance()
		}
		if !late && !strings.Contains(p.script.String()[before:], ": ok\n") {
			p.checker.rest()
			p.quiet()
			return
		}
	}
	p.checker.found(noRest, "after %d rounds", rounds)
}

// quiet makes one more pass of each runner, which must need no request: what
// stands is in its cache.
func (p *scenario) quiet() {
	for _, a := range p.processes {
		if !a.alive() {
			continue
		}
		a.cache.hears(1)
		if a.advance(); a.pass != nil {
			p.checker.found(notQuiet, "%s at rest", a.name)
		}
	}
}
