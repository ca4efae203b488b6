package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	// fewRounds is how many passes each process may need to come to rest where there is no rollout.
	fewRounds = 12
	// longRound is so long that whoever fought for fields is forgotten, and a server that was left to a rival is not any
	// more.
	longRound = time.Hour
)

// holds are the writes before which a process is left where it is: one in so many, for fewer
// steps than that, and of one kind only where that is named.
type holds struct {
	oneIn, steps int
	kind         string
}

// mode is who meets in a run.
type mode struct {
	// steps is how much happens before a run is left to come to rest.
	steps int
	holds holds
	// rounds is how many passes each process may need to come to rest, and round how long one takes.
	rounds int
	round  time.Duration
	// prepare makes the server and the processes, and step lets one thing happen.
	prepare, step func(*scenario)
	// around is what happens around the processes while they come to rest.
	around func(*scenario)
	// end lets the run come to rest and looks at what is left.
	end func(*scenario)
}

// everybody are runs in which all meet who may meet in a cluster.
var everybody = mode{
	steps: 200, holds: holds{oneIn: 3, steps: 15}, rounds: fewRounds, round: longRound,
	prepare: (*scenario).all, step: (*scenario).step, end: (*scenario).end,
	around: func(p *scenario) {
		p.roll()
		p.collect()
		p.runWorkloads()
	},
}

// scenario is one run.
type scenario struct {
	t         *testing.T
	name      string // the server's
	random    *rand.Rand
	mode      mode
	plant     plant
	now       int // counts steps
	clock     time.Time
	processes []*process
	others    *others
	// dependents are the children that are still to be orphaned, nil while none are.
	dependents []key
	// orphaned are the children that the garbage collector took an owner off.
	orphaned map[types.UID]bool
	// moved are the objects of others that a take-over has begun with: their managedFields were written, and the intent
	// was not yet applied.
	moved map[types.UID]bool
	// kind is which of the kinds of configurations servers share.
	kind     int
	reviewer client.Client // the runners', past the wire
	world    *world
	checker  *checker
	// gate judges the backends of runs of runners only and of rollouts, nil in others, and slots those of rollouts.
	gate  *gate
	slots *slots
	// disorder is whether requests are refused and answers get lost.
	disorder bool
	// operations counts writes, accepted those of them that were not refused, and tally everything that happened.
	operations, accepted int
	tally                map[string]int
	script               strings.Builder
	// broken is what went wrong with the test itself.
	broken error
}

// scenarios counts runs, so that those of one seed have names of their own.
var scenarios int

// runScenario runs the scenario of a seed to its end.
func runScenario(t *testing.T, seed uint64, mode mode, plant plant) *scenario {
	t.Helper()
	kit.Announce(t, seed)
	scenarios++
	p := &scenario{
		t: t, name: fmt.Sprintf("run-%d", scenarios),
		random: rand.New(rand.NewPCG(seed, 0)), mode: mode, plant: plant,
		clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		world: newWorld(), tally: map[string]int{}, orphaned: map[types.UID]bool{},
		moved: map[types.UID]bool{}, kind: int(seed % 2),
	}
	p.checker = &checker{scenario: p}
	p.others = &others{scenario: p}
	p.others.Client = p.connect(p.wired(nil, plane.Config))
	mode.prepare(p)
	p.disorder = true
	for p.now < mode.steps && p.broken == nil && !p.found() {
		p.now++
		p.clock = p.clock.Add(time.Second)
		mode.step(p)
	}
	if !p.found() {
		mode.end(p)
	}
	p.sweep()
	if p.broken != nil {
		t.Fatalf("FREEHOLD_SEED=%d: %v\n%s", seed, p.broken, p.script.String())
	}
	return p
}

// all makes two operators, of which one has lost its lease and does not know, and two runners.
func (p *scenario) all() {
	p.reviewer = p.connect(p.runner())
	p.newProcess("operator", plane.OperatorConfig(), operator)
	p.newProcess("old operator", plane.OperatorConfig(), operator)
	p.newProcess("runner", p.runner(), runner)
	p.newProcess("other runner", p.runner(), runner)
	p.want()
}

// broke notes that the test itself could not go on.
func (p *scenario) broke(err error) {
	if p.broken == nil {
		p.broken = err
	}
}

func (p *scenario) note(format string, args ...any) {
	fmt.Fprintf(&p.script, format+"\n", args...)
}

// step lets one thing happen.
func (p *scenario) step() {
	switch n := p.random.IntN(100); {
	case n < 58:
		if a := p.pick((*process).wakeful); a != nil {
			a.advance()
		}
	case n < 64:
		if a := p.pick((*process).dead); a != nil {
			a.begin()
		}
	case n < 66:
		if a := p.pick((*process).alive); a != nil {
			a.kill()
		}
	case n < 88:
		p.meddle()
	case n < 92:
		p.collect()
	case n < 98:
		p.runWorkloads()
	default:
		p.clock = p.clock.Add(time.Duration(1+p.random.IntN(5)) * time.Minute)
	}
}

// pick chooses one of the processes for which is holds, nil if there is none.
func (p *scenario) pick(is func(*process) bool) *process { return kit.Pick(p.random, p.processes, is) }

// end lets the run come to rest, then the server go, and looks at what is left.
func (p *scenario) end() {
	p.disorder = false
	p.note("nobody interferes any more")
	p.processes[1].kill() // who does not lead learns it some day
	if p.server() == nil || p.server().GetDeletionTimestamp() != nil {
		p.free()
		p.settle()
		p.want()
	}
	if p.settle() {
		p.checker.rest()
		p.quiet()
	}
	p.release()
	p.unshare()
	p.note("the server is deleted")
	if s := p.server(); s != nil {
		p.others.attempt("delete", p.others.Delete(p.t.Context(), about(s)))
	}
	if p.settle() {
		p.checker.released()
		p.free()
	}
	if p.settle() {
		p.checker.gone()
		p.quiet()
	}
}

// found reports whether the run has shown what was planted.
func (p *scenario) found() bool { return p.plant.want != "" && p.checker.violated(p.plant.want) }

// sweep ends the processes and deletes what the run made.
func (p *scenario) sweep() {
	p.disorder = false
	for _, a := range p.processes {
		if a.alive() {
			a.kill()
		}
	}
	for _, o := range p.world.standing() {
		p.others.attempt("delete", p.others.Delete(p.t.Context(), about(o)))
	}
}

// free takes away what others hold the server with: also our finalizer where somebody stated it as well.
func (p *scenario) free() {
	server := p.server()
	if server == nil || server.GetDeletionTimestamp() == nil {
		return
	}
	finalizers := slices.DeleteFunc(slices.Clone(server.GetFinalizers()), func(f string) bool {
		return f != contract.Finalizer || !ownedByUs(server)
	})
	freed := server.DeepCopy()
	freed.SetFinalizers(finalizers)
	p.others.attempt("merge patch",
		p.others.Patch(p.t.Context(), freed, client.MergeFrom(server), client.FieldOwner(patcher)))
}

// settle lets processes make passes, in turns, until a whole round writes
// nothing that began with what stands. It reports whether they came to rest.
func (p *scenario) settle() bool {
	for range p.mode.rounds {
		if p.broken != nil {
			return false
		}
		p.clock = p.clock.Add(p.mode.round)
		late := slices.ContainsFunc(p.processes, (*process).busy)
		before := p.accepted
		p.mode.around(p)
		for _, a := range p.processes {
			if a.alive() && a.turn == nil {
				a.cache.hears(1)
				a.advance()
			}
		}
		for a := p.pick((*process).busy); a != nil; a = p.pick((*process).busy) {
			a.advance()
		}
		if !late && p.accepted == before {
			return true
		}
	}
	p.checker.found(noRest, "after %d rounds", p.mode.rounds)
	return false
}

// roll ends the runners of pods that the proxy has replaced, and starts one of
// those that it wants; the operator is started if it is down.
func (p *scenario) roll() {
	rev, config := p.rolledOut()
	for _, a := range p.processes[2:] {
		if a.alive() && (config == nil || a.revision != rev) {
			a.kill()
		}
	}
	for _, a := range []*process{p.processes[0], p.processes[2]} {
		if a.dead() {
			a.begin()
		}
	}
}

// quiet makes one more pass of each process, which must write nothing. It may try
// whether a name is free by now that somebody else has taken.
func (p *scenario) quiet() {
	before := p.accepted
	for _, a := range p.processes {
		if !a.alive() {
			continue
		}
		a.cache.hears(1)
		for p.broken == nil && a.advance() {
			continue
		}
		var invalid *apply.BadIntent
		if apierrors.IsForbidden(a.failed) && a.isRunner() && !p.runnerMay() {
			continue // a Role of that name is another's
		}
		if a.failed != nil && !errors.As(a.failed, &invalid) { // of that, see checker.answered
			p.checker.found(failing, "%s: %v", a.name, a.failed)
		}
	}
	if p.accepted != before {
		p.checker.found(notQuiet, "%d writes at rest", p.accepted-before)
	}
}
