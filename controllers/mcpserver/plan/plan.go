// Package plan decides what a pass does: Make turns a snapshot and a digest of the content that is asked for into a
// Plan, which says in which phase a server is, what is to be written and in which order, and what is to be said of
// it. It is pure: package act executes a plan, and package report words it.
package plan

import (
	"slices"
	"time"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/mcpserver/render"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/mcpserver/successive"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Phase is where a server is on its way.
type Phase int

const (
	// Deleting means that it is being deleted.
	Deleting Phase = iota
	// Invalid means that the spec cannot be rendered: what runs is kept as it is, and can be stopped.
	Invalid
	// WaitingForConfig means that nothing but a configuration has changed, and that it is not the server's turn.
	WaitingForConfig
	// Superseded means that another operator claimed other content of the same spec.
	Superseded
	// LowerReady means that Ready goes down before new content is claimed.
	LowerReady
	// Claim means that the number of new content is claimed.
	Claim
	// RollOut means that the content is claimed, and does not run everywhere yet.
	RollOut
	// Serving means that nothing but the content runs, and that calls are served.
	Serving
	// Draining means that the spec asks for no pods, and that some are left.
	Draining
	// Stopped means that the spec asks for no pods, and that none are left.
	Stopped
)

// Phases are all, in the order in which Make asks for them.
var Phases = [...]string{
	"Deleting", "Invalid", "WaitingForConfig", "Superseded", "LowerReady", "Claim", "RollOut", "Serving", "Draining",
	"Stopped",
}

func (p Phase) String() string { return Phases[p] }

// Plan is what a pass does.
type Plan struct {
	Phase Phase
	// Target is the revision that the content has or is to be given; of what is kept, that which stands.
	Target revision.Revision
	// Steps are taken in this order.
	Steps   []Step
	Verdict Verdict
	// Wake is when the next pass is due though nothing happens, 0 for never.
	Wake time.Duration

	// Digest is that of the content that is asked for, or of what the server goes on with while it waits.
	Digest render.Digest
	// Claim is what status.workload is to say.
	Claim v1alpha1.WorkloadStatus
	// Rollout is how content fares that comes up beside what serves.
	Rollout successive.Verdict
	// Next is what the status is to say of that, also where the write of it is refused.
	Next successive.Status
	// Settles says that Next gives the calls to another slot, ends sessions, or has the outcome of a rollout: what a cache
	// shows is not enough for that.
	Settles bool
}

type maker struct {
	*Plan
	s *snapshot.Snapshot
	// owner has what the release and the server say of all objects.
	owner   workload.Owner
	release podtemplate.Release
	// turns are how far the server is with each configuration that it refers to.
	turns []rollout.Turn
	// waitsFor is a configuration whose content it is not the server's turn to take: it goes on with what it has of it.
	waitsFor *v1alpha1.WorkloadConfig
	problems podtemplate.Problems
	// unclaimed are children whose number is none of this server's.
	unclaimed []snapshot.Numbered
	// kept restates the proxy that stands, whatever its revision; nil where it is not kept.
	kept *ApplyProxy
	// open says that the proxy that stands may serve what the spec no longer lets it serve.
	open bool
	// empty are slots that nothing uses any more.
	empty []workload.Slot
	// drain is how long the backend waits for the end of calls, 0 if it does not.
	drain time.Duration
}

// Make decides what a pass over a server does that asks for the content of digests.
func Make(s *snapshot.Snapshot, digests render.Digests, release podtemplate.Release) Plan {
	m := &maker{
		Plan: &Plan{}, s: s, release: release, owner: workload.OwnerWith(s.Object, release.Objects), turns: s.Configs.Turns,
	}
	if s.Leftover != nil {
		m.always(RemovePolicy{Policy: s.Leftover, Ends: true})
	}
	if s.Object.GetDeletionTimestamp() != nil {
		m.Phase = Deleting
		m.delete(s.Proxy())
		return *m.Plan
	}
	m.always(HoldFinalizer{})
	m.drain = drains(s)
	keeps := m.take(digests)
	m.decide(keeps)
	if m.Verdict = m.verdict(); m.Phase == RollOut && m.Verdict.IsServed() {
		m.Phase = Serving
	}
	m.wake(m.drain, hidden(s))
	for _, in := range s.Slots {
		m.wake(in.Refused.Again)
	}
	return *m.Plan
}

// decide finds the phase of a server that is not being deleted, and what is to be done in it.
func (m *maker) decide(keeps bool) {
	m.open = m.unguarded()
	m.problems = slices.Clip(m.Digest.Problems)
	switch {
	case keeps:
		m.Phase = WaitingForConfig
		if m.keep(); m.s.Last.HasClaimed(m.Target) && m.s.Last.Claim.OwnHash == m.Digest.OwnHash {
			m.advance() // no configuration contributes to a backend
		} else {
			m.goOn()
		}
		m.converge()
		return
	case len(m.problems) == 0:
		m.Target = revision.Next(m.s.Revisions(), m.Digest.Hash)
		if m.Target.Generation > revision.MaxGeneration {
			m.problems = append(m.problems, podtemplate.Problem{
				Field: revision.AnnotationGeneration, Message: revision.ErrExhausted.Error(),
			})
		}
	}
	if len(m.problems) > 0 {
		m.Phase = Invalid
		m.keep()
		m.goOn()
		m.converge()
		return
	}
	m.Claim = m.claim()
	if m.unclaimed = m.s.Unclaimed(m.Target); len(m.unclaimed) > 0 {
		m.always(ConfirmClaim{})
	}
	switch {
	case m.s.Last.HasClaimed(m.Target):
		m.Phase = m.progress()
		m.always(KeepClaim{})
		if !m.recorded() {
			m.always(WriteClaim{Record: true})
			m.fallBack()
		}
		m.advance()
		m.converge()
	case m.superseded():
		m.Phase = Superseded
		m.always(Yield{})
	// Ready goes down before new content goes out, and says for what.
	case m.s.Last.IsReady() || m.s.Last.Phase == v1alpha1.PhasePending:
		m.Phase = LowerReady
		m.foresee()
		m.always(Report{})
	default:
		m.Phase = Claim
		m.foresee()
		m.writeClaim()
	}
}

// writeClaim claims the target. What it needs follows in the same pass, but for content that comes up beside what
// serves: of that nothing is made before its plan is stored.
func (m *maker) writeClaim() {
	if m.lacksSessionKey() {
		m.always(MakeSessionKey{Name: m.Digest.SessionSecret})
	}
	m.always(WriteClaim{})
	m.fallBack()
	if m.Claim.Strategy == v1alpha1.StrategySuccessive {
		m.always(Report{})
		return
	}
	m.converge()
}

func (m *maker) progress() Phase {
	switch halt := haltOf(m.s); {
	case halt != Runs && stopped(m.s):
		return Stopped
	case halt != Runs:
		return Draining
	}
	return RollOut
}

// Kept reports whether the proxy that stands is kept as it is, whatever its revision.
func (p *Plan) Kept() bool { return p.Phase == Invalid || p.Phase == WaitingForConfig }

// Accepted reports whether the spec can be followed.
func (p *Plan) Accepted() bool { return p.Phase != Invalid }

func (m *maker) wake(waits ...time.Duration) {
	m.Wake = apply.ShortestWait(append(waits, m.Wake)...)
}
