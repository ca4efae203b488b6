package plan

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Ready is why calls reach the content of the spec, or why not.
type Ready int

const (
	// Halted means that no calls are served by intent: Verdict.Halt.
	Halted Ready = iota
	// NotAccepted means that the spec cannot be followed.
	NotAccepted
	// Unclaimed means that children carry numbers that no claim made.
	Unclaimed
	// RollsOut means that content comes up beside what serves: Plan.Rollout.
	RollsOut
	// RolloutHeld means that it was checked, and waits for a person.
	RolloutHeld
	// RolloutFailed means that it did not come up, or did not pass its check.
	RolloutFailed
	// SlotTaken means that another owner's object has a name that it needs: Verdict.Failure.
	SlotTaken
	// Updating means that pods with the new content are to replace the older ones.
	Updating
	// Starting means that the first content is on its way.
	Starting
	// PodsFail means that a pod cannot run: Verdict.Failure.
	PodsFail
	// RunnerFails means that the runner cannot apply the backend.
	RunnerFails
	// NoAnswer means that something else than MCP answers.
	NoAnswer
	// Unavailable means that no pod is ready of what has rolled out.
	Unavailable
	// StaysRefused means that the claim was refused, and that the server waits for a place to try again.
	StaysRefused
	// Pending means that calls are served with the content before, while the server waits for a configuration.
	Pending
	// Serves means that calls are served.
	Serves
)

// Halt is why a server serves no calls by intent.
type Halt int

const (
	// Runs means that it is to serve.
	Runs Halt = iota
	// Suspended means that spec.suspend is true.
	Suspended
	// ScaledToZero means that the spec asks for no pods of the backend, or of the proxy.
	ScaledToZero
	// NotEnforced means that the spec asks for what this version does not enforce.
	NotEnforced
)

// Running is what runs of a server whose spec cannot be followed.
type Running int

const (
	// NothingRuns means that nothing does.
	NothingRuns Running = iota
	// ProxyStopped means that the proxy is stopped, because it does not enforce what the spec asks for.
	ProxyStopped
	// LastAccepted means that the last accepted content keeps running.
	LastAccepted
)

// Verdict is what is to be said of a server, not yet in words.
type Verdict struct {
	Ready Ready
	Halt  Halt
	// Phase is how the server fares, for programs.
	Phase v1alpha1.WorkloadPhase
	// Failure is that of PodsFail, or of SlotTaken.
	Failure *conditions.Finding
	// Problems keep the spec from being followed, Reason is that of them where nothing but references is wrong, and
	// Running is what runs then.
	Problems podtemplate.Problems
	Reason   string
	Running  Running
	// Unclaimed are the children with numbers that no claim made.
	Unclaimed []snapshot.Numbered
	// WaitsFor is the configuration of Pending.
	WaitsFor *v1alpha1.WorkloadConfig
	// Stopped says that the server has no pod left of what it is to have none of, and has claimed that.
	Stopped bool
	// Complete says that the content that was claimed last has served, also where something keeps a newer one from being
	// taken. Of a backend that comes up beside what serves it is the proxies that serve with the claim.
	Complete bool
}

// IsServed reports whether calls are served.
func (v *Verdict) IsServed() bool { return v.Ready == Serves || v.Ready == Pending }

func (m *maker) verdict() Verdict {
	v := Verdict{
		Halt: haltOf(m.s), Problems: m.problems, Reason: m.Digest.Reason, Unclaimed: m.unclaimed, WaitsFor: m.waitsFor,
		Stopped: m.s.Last.HasClaimed(m.Target) && stopped(m.s), Complete: m.complete(),
	}
	if v.Halt == Runs && len(m.Digest.NotEnforced) > 0 {
		v.Halt = NotEnforced
	}
	switch {
	case !m.Target.Valid() || v.Halt != Runs:
	case m.kept != nil && m.open:
		v.Running = ProxyStopped
	case !m.restsAtZero():
		v.Running = LastAccepted
	}
	v.Ready, v.Failure = m.ready(v.Halt)
	v.Phase = m.fares(&v)
	return v
}

// fares is the phase of a server by what is to be said of it.
func (m *maker) fares(v *Verdict) v1alpha1.WorkloadPhase {
	switch v.Ready {
	case Halted:
		switch {
		case v.Halt == NotEnforced:
			return v1alpha1.PhaseBlocked
		case v.Stopped:
			return v1alpha1.PhaseStopped
		}
		return v1alpha1.PhaseStopping
	case NotAccepted:
		if v.Reason != "" {
			return v1alpha1.PhaseUnresolved
		}
		return v1alpha1.PhaseBlocked
	case Unclaimed, RolloutHeld, RolloutFailed:
		return v1alpha1.PhaseBlocked
	case Updating, RollsOut:
		return v1alpha1.PhaseUpdating
	case Starting:
		return v1alpha1.PhaseStarting
	case PodsFail, SlotTaken:
		return conditions.PhaseOf(*v.Failure)
	case RunnerFails, NoAnswer:
		return m.s.Last.RunnerPhase
	case Unavailable:
		return v1alpha1.PhaseUnavailable
	case StaysRefused:
		return v1alpha1.PhaseRefused
	case Pending:
		return v1alpha1.PhasePending
	case Serves:
	}
	return v1alpha1.PhaseServing
}

// ready answers whether calls reach the content of the spec, and nothing older.
func (m *maker) ready(halt Halt) (Ready, *conditions.Finding) {
	was := m.s.Last.WasServing()
	switch {
	// A server that is to stop, and whose spec is wrong, has not got what it asks for.
	case halt == NotEnforced || halt != Runs && m.Phase != Invalid:
		return Halted, nil
	case m.Phase == Invalid:
		return NotAccepted, nil
	case len(m.unclaimed) > 0:
		return Unclaimed, nil
	case m.Rollout.IsServedByOther():
		return m.besides()
	case was && !m.s.Last.HasClaimed(m.Target):
		return Updating, nil // it serves, and the number comes next: what troubles a pod of it is not why
	case !m.rolledOut(m.Digest.Backend, was):
		return m.moving()
	case m.runnerFails():
		return RunnerFails, nil
	case !m.available() && !was && m.s.Last.Phase != v1alpha1.PhaseUnavailable:
		return m.moving() // its pods are not up yet
	case !m.available():
		if f := m.failure(); f != nil {
			return PodsFail, f
		}
		return Unavailable, nil
	case m.answers(m.Digest.Backend) != snapshot.Done:
		return m.moving()
	case m.waitsFor != nil && m.s.Last.Phase == v1alpha1.PhaseRefused &&
		slices.ContainsFunc(m.s.Configs.Turns, rollout.Turn.StaysRefused):
		return StaysRefused, nil
	case m.waitsFor != nil:
		return Pending, nil
	}
	return Serves, nil
}

// moving is why content has not rolled out yet.
func (m *maker) moving() (Ready, *conditions.Finding) {
	if f := m.failure(); f != nil {
		return PodsFail, f
	}
	switch {
	case m.runnerFails():
		return RunnerFails, nil
	case m.answers(m.Digest.Backend) == snapshot.Fails:
		return NoAnswer, nil
	// The first content is starting until it is ready, whatever of it is there.
	case m.s.Object.GetProxyStatus().URL == "" || m.s.Last.Phase == v1alpha1.PhaseStarting:
		return Starting, nil
	}
	return Updating, nil
}

func (m *maker) failure() *conditions.Finding { return m.s.FirstFailure(m.Wanted(m.s)) }

// Wanted is what the pods are to run that get the calls.
func (p *Plan) Wanted(s *snapshot.Snapshot) snapshot.Wanted {
	return snapshot.Wanted{Revision: p.Target, Slot: s.Active, Hash: p.Digest.Backend}
}

// rolledOut reports whether nothing runs but the target, with a backend of hash, and the runner knows it.
func (m *maker) rolledOut(hash string, was bool) bool {
	runtime := m.s.Last.Runtime
	return m.s.Last.HasClaimed(m.Target) && m.s.Proxy().RolledOut(m.Target, was) &&
		(!m.s.Kind.Backend || m.s.Backend().RolledOut(m.Target, hash, was)) &&
		runtime != nil && runtime.Generation >= m.Target.Generation
}

// available reports whether a pod of each kind is ready. Workloads count a pod that got ready a moment after it did.
func (m *maker) available() bool {
	return (m.s.Proxy().Available || m.s.Pods.Ready(workload.ComponentProxy)) &&
		(!m.s.Kind.Backend || m.s.Backend().Ready || m.s.Pods.Ready(m.s.Active.Component()))
}

// complete reports whether the content that was claimed last has served. Of what is kept the spec may say another one.
func (m *maker) complete() bool {
	if m.Rollout.IsServedByOther() {
		return m.s.Last.HasClaimed(m.Target) && m.s.Proxy().RolledOut(m.Target, false) && m.IncumbentServes(m.s)
	}
	hash := m.Digest.Backend
	if m.kept != nil {
		hash = m.s.Backend().Hash
	}
	return m.rolledOut(hash, false) && m.available() && m.answers(hash) == snapshot.Done
}

// runnerFails reports whether something keeps the runner from applying the backend of the target.
// That it stands back for another runner is none of it.
func (m *maker) runnerFails() bool {
	return m.s.Last.Applied == snapshot.Fails && m.s.Last.HasClaimed(m.Target)
}

// answers is whether MCP answers with the target, of which the backend has this hash, as a runner of it says. What has
// got the calls since a moment ago has answered its check.
func (m *maker) answers(hash string) snapshot.RunnerState {
	runtime := m.s.Last.Runtime
	if runtime == nil || !m.s.Last.HasClaimed(m.Target) || runtime.Generation < m.Target.Generation {
		return snapshot.Unsaid
	}
	if runtime.BackendHash == "" || runtime.BackendHash == hash {
		return m.s.Last.Answers
	}
	if checked := runtime.Candidate; checked != nil && checked.Hash == hash && checked.Answers {
		return snapshot.Done
	}
	return snapshot.Unsaid
}

func haltOf(s *snapshot.Snapshot) Halt {
	switch {
	case s.Object.GetProxySpec().Suspend:
		return Suspended
	case kinds.BackendReplicas(s.Object) == 0 || workload.ProxyReplicas(s.Object, 0) == 0:
		return ScaledToZero
	}
	return Runs
}

// stopped reports whether a server that is suspended or scaled to zero has no pod left of what it is to have none of.
func stopped(s *snapshot.Snapshot) bool {
	return (workload.ProxyReplicas(s.Object, 0) > 0 ||
		s.Proxy().Stopped && s.Pods.Running(workload.ComponentProxy) == 0) &&
		(kinds.BackendReplicas(s.Object) > 0 || s.Pods.Running(workload.Backends...) == 0 &&
			!slices.ContainsFunc(s.Backends(), func(b *snapshot.Backend) bool { return !b.Stopped }))
}
