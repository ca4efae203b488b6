package plan

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/mcpserver/successive"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// rolloutSpec is spec.rollout as it is written, zero where nothing is.
func (m *maker) rolloutSpec() v1alpha1.RolloutSpec {
	if server, is := m.s.Object.(*v1alpha1.MCPServer); is {
		return ptr.Deref(server.Spec.Rollout, v1alpha1.RolloutSpec{})
	}
	return v1alpha1.RolloutSpec{}
}

// strategy is what a claim records: Successive where the content is to come up beside what serves, else nothing, by
// which it goes straight in. What was claimed stays until a person writes Replace, so that a rollout that was lost, has
// failed or was cancelled lets no runner write over what serves. The default, which may be another one in another
// release, decides for content that is asked for anew.
func (m *maker) strategy(same bool) v1alpha1.RolloutStrategy {
	rollout, active := m.s.Last.Rollout, m.s.Last.Active
	switch {
	case m.rolloutSpec().Strategy == v1alpha1.StrategyReplace:
		return ""
	case same:
		return m.s.Last.Claim.Strategy
	case active != nil && active.Hash == m.Digest.Backend:
		return ""
	case rollout != nil && rollout.Target.Hash == m.Digest.Backend, m.isProxyAlone(),
		m.Digest.Strategy == v1alpha1.StrategySuccessive && haltOf(m.s) == Runs && m.serves():
		return v1alpha1.StrategySuccessive
	}
	return ""
}

// isProxyAlone reports whether a claim changes nothing of a backend that was claimed to come up beside what serves. If
// that is held, has failed or was cancelled, it stays so whether or not a pod of what serves is ready just now.
func (m *maker) isProxyAlone() bool {
	claim, rollout, active, last := m.s.Last.Claim, m.s.Last.Rollout, m.s.Last.Active, m.s.Last.LastRollout
	switch {
	case claim == nil || claim.Strategy != v1alpha1.StrategySuccessive:
		return false
	case rollout != nil && (active == nil || rollout.Target.Slot != active.Slot): // it came after the last one
		return rollout.Target.Hash == m.Digest.Backend
	}
	return last != nil && last.State != v1alpha1.RolloutSucceeded && last.Hash == m.Digest.Backend
}

// serves reports whether the backend that gets the calls serves other content than is asked for. One that does not
// serve is not protected. It is judged by what stands, since a status may be lost.
func (m *maker) serves() bool {
	backend, active := m.s.Backend(), m.s.Last.Active
	return backend.Claimable() && backend.Live.DeletionTimestamp == nil && backend.Hash != m.Digest.Backend &&
		(active == nil || backend.Hash == active.Hash) && (backend.Ready || m.s.Pods.Ready(m.s.Active.Component())) &&
		!m.answersNoMCP(backend.Hash)
}

// answersNoMCP reports whether the content with a hash has never answered MCP, as a runner says: pods are ready once
// their port listens. What has answered may be busy.
func (m *maker) answersNoMCP(hash string) bool {
	return m.s.Last.AnswersOf(hash) == snapshot.Fails && len(m.s.Last.Runtime.ProtocolVersions) == 0
}

// advance says which content gets the calls, and how far a rollout is. It is stated also where nothing has changed,
// since an intent that leaves it out removes it; then nothing is sent.
func (m *maker) advance() {
	if m.s.Kind.Backend {
		m.advanceTo(m.asked(m.s.Last.Claim.Strategy))
	}
}

// foresee says how content fares that is claimed next, to come up beside what serves: what serves is told of also in
// the passes before its plan.
func (m *maker) foresee() {
	if m.Claim.Strategy == v1alpha1.StrategySuccessive {
		m.next(m.asked(m.Claim.Strategy))
	}
}

// asked is what is asked for, under a claim that records a strategy. That counts for more than the default of now.
func (m *maker) asked(claimed v1alpha1.RolloutStrategy) successive.Wanted {
	spec := m.rolloutSpec()
	spec.Strategy = cmp.Or(spec.Strategy, claimed, m.Digest.Strategy)
	return successive.Wanted{
		Content: v1alpha1.BackendContent{
			Hash: m.Digest.Backend, Generation: m.Target.Generation,
			Port: m.Digest.Port, Path: m.Digest.Path, Transport: m.Digest.Transport,
		},
		Asked: m.s.AskedSince(m.Digest.Backend, m.Target), Reads: m.Digest.Reads, Pinned: m.Digest.Pinned,
		Successive: claimed == v1alpha1.StrategySuccessive, Spec: &spec,
	}
}

// goOn lets a rollout go on that was accepted before, where the spec cannot be followed now, and what one has left go.
func (m *maker) goOn() {
	rollout, active, spec := m.s.Last.Rollout, m.s.Last.Active, m.rolloutSpec()
	if active == nil || rollout == nil && !m.hasOther(active.Slot) {
		return
	}
	content := active.BackendContent
	if rollout != nil && rollout.Target.Slot != active.Slot { // it has no calls yet
		content = rollout.Target
	}
	spec.Strategy = v1alpha1.StrategySuccessive
	// What the content reads, and whether a digest names its image, is not known: no image of its pods is wrong.
	m.advanceTo(successive.Wanted{Content: content, Successive: true, Spec: &spec, Pinned: true})
}

// hasOther reports whether something of the server stands in another slot.
func (m *maker) hasOther(active int32) bool {
	return slices.ContainsFunc(workload.Slots[:], func(slot workload.Slot) bool {
		return slot != workload.Slot(active) && len(m.s.Slots[slot].Removable()) > 0
	})
}

// next is what is to be by the status that stands.
func (m *maker) next(want successive.Wanted) successive.Plan {
	last := successive.Status{Active: m.s.Last.Active, Rollout: m.s.Last.Rollout, Last: m.s.Last.LastRollout}
	want.UID, want.Halted, want.Replicas = m.s.Object.GetUID(), haltOf(m.s) != Runs, kinds.BackendReplicas(m.s.Object)
	want.Deadline = Limit(m.s.Object, v1alpha1.PhaseUpdating)
	next := successive.Make(last, want, m.observed(), m.s.Now)
	m.Rollout, m.Next = next.Verdict, next.Status
	return next
}

func (m *maker) advanceTo(want successive.Wanted) {
	last, next := m.s.Last, m.next(want)
	m.wake(next.Wake)
	write := WritePlan{
		Status: next.Status, Begins: last.Rollout == nil && next.Rollout != nil,
		Ends: !equality.Semantic.DeepEqual(last.Rollout, next.Rollout) ||
			!equality.Semantic.DeepEqual(last.LastRollout, next.Last),
	}
	drained := successive.Status{Rollout: last.Rollout}.Drains() && !next.Drains()
	m.Settles = last.Active != nil && (drained || last.Active.Slot != next.Active.Slot ||
		!equality.Semantic.DeepEqual(last.LastRollout, next.Last))
	m.always(write)
	if write.Begins {
		m.fallBack()
	}
	// What the status does not name yet, or names still, is left alone: who makes a candidate goes by that.
	if last.Active == nil || write.Ends || m.drain > 0 {
		return
	}
	m.empty = next.Empty
}

// empties reports whether a slot has something that goes because nothing uses it any more. A StatefulSet whose pods
// nothing controls, as after they were restored, stays until its controller has taken them: nobody else may end them.
func (m *maker) empties(slot workload.Slot) bool {
	in := m.s.Slots[slot]
	return slices.Contains(m.empty, slot) && len(in.Removable()) > 0 &&
		(!in.Backend.Claimable() || in.Backend.Live.DeletionTimestamp != nil || !m.s.Pods.HasOrphan(slot.Component()))
}

func (m *maker) observed() successive.Observed {
	proxy := m.s.Proxy()
	seen := successive.Observed{
		Slots:             map[workload.Slot]successive.Slot{},
		ProxiesReady:      proxy.RolledOut(m.Target, false) && proxy.Available,
		ProxiesUnanswered: m.s.ProxiesUnanswered(m.Target),
	}
	for _, slot := range workload.Slots {
		there := m.s.ForRollout(slot)
		switch unapplied := m.unapplied(slot); {
		case unapplied == nil:
		case conditions.IsQuota(unapplied.Message):
			there.Quota = cmp.Or(there.Quota, unapplied)
		default:
			there.Failure = cmp.Or(there.Failure, unapplied)
		}
		seen.Slots[slot] = there
	}
	for i := range m.s.Routing.Told {
		seen.Proxies = append(seen.Proxies, successive.Answer{Routing: &m.s.Routing.Told[i], At: m.s.Routing.At})
	}
	for range m.s.Routing.Unknown {
		seen.Proxies = append(seen.Proxies, successive.Answer{})
	}
	if runtime := m.s.Last.Runtime; runtime != nil {
		seen.Candidate = runtime.Candidate
	}
	return seen
}

// unapplied is what keeps the runner of the target from applying the content that a rollout brings to a slot. Its
// report is of that alone, whatever it meets with content beside.
func (m *maker) unapplied(slot workload.Slot) *conditions.Finding {
	rollout, runtime := m.s.Last.Rollout, m.s.Last.Runtime
	if rollout == nil || workload.Slot(rollout.Target.Slot) != slot || !m.runnerFails() || runtime == nil ||
		runtime.Generation != m.Target.Generation {
		return nil
	}
	return new(conditions.Restate(m.s.Last.BackendApplied))
}

// besides is why content that comes up beside what serves does not serve yet.
func (m *maker) besides() (Ready, *conditions.Finding) {
	// It is of a proxy, since none of the backend with this content gets calls.
	if f := m.failure(); f != nil && !m.s.Proxy().RolledOut(m.Target, false) {
		return PodsFail, f
	}
	switch m.Rollout.State {
	case successive.Held, successive.Paused:
		return RolloutHeld, nil
	case successive.Failed:
		return RolloutFailed, nil
	case successive.WaitsForSlot:
		if taken := m.s.Taken(m.s.Active.Other()); taken != nil {
			return SlotTaken, taken
		}
	case successive.Rest, successive.Moving, successive.WaitsForDrain, successive.Ending:
	}
	return RollsOut, nil
}

// Wait is what the server waits for, where it is not ready.
func (p *Plan) Wait() Wait {
	wait := Wait{Phase: p.Verdict.Phase, Failure: p.Verdict.Failure}
	if p.Verdict.Ready == RollsOut {
		wait.RollsOut, wait.Since = p.isTimed(), p.waitsSince()
	}
	return wait
}

// isTimed reports whether what content that comes up beside what serves waits for has a deadline of its own. For a
// slot, or while a quota refuses pods, it waits as long as that takes.
func (p *Plan) isTimed() bool {
	switch p.Rollout.State {
	case successive.WaitsForSlot:
		return false
	case successive.Moving:
		return p.Rollout.Step.Deadline != nil
	case successive.Rest, successive.Held, successive.Paused, successive.Failed, successive.WaitsForDrain,
		successive.Ending:
	}
	return true
}

// waitsSince is when content that comes up beside what serves came to where it is: to the step of its rollout, or to a
// slot that a rollout before has left.
func (p *Plan) waitsSince() time.Time {
	switch step, last := p.Rollout.Step, p.Next.Last; {
	case step.StartedAt != nil:
		return step.StartedAt.Time
	case p.Next.Rollout == nil && last != nil:
		return last.At.Time
	}
	return time.Time{}
}

// IncumbentServes reports whether calls are served by the content that gets them.
func (p *Plan) IncumbentServes(s *snapshot.Snapshot) bool {
	return p.IncumbentIsReady(s) && !s.ActiveFails()
}

// IncumbentIsReady reports whether calls find a pod of the proxy, and of the content that gets them.
func (p *Plan) IncumbentIsReady(s *snapshot.Snapshot) bool {
	backend := s.Backend()
	return (s.Proxy().Available || s.Pods.Ready(workload.ComponentProxy)) && backend.Claimable() &&
		(backend.Ready || s.Pods.Ready(s.Active.Component()))
}
