package model

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

const (
	pointerLost  rule = "a status that said which content gets the calls says it no more"
	unproven     rule = "content gets calls that has not proven itself"
	robbed       rule = "a write of ours took pods or names from what gets the calls"
	tornDown     rule = "content goes before the proxies have acknowledged that calls go elsewhere, or a bound"
	sessionsLost rule = "content is left before its sessions have ended, or a bound"
	mixed        rule = "at rest something else stands than the content that is asked for"
)

// The bounds by which a rollout goes on though a proxy does not say that it has followed, or clients go on.
const (
	acknowledgedBy = time.Minute
	quietFor       = 10 * time.Minute
	hurriedBy      = 2 * time.Minute
)

// slotOf is the slot of which an object is, 0 if it is of none.
func (p *scenario) slotOf(k key) workload.Slot {
	for _, slot := range workload.Slots {
		if k.kind == contract.StatefulSet.Kind && k.name == slot.Name(p.name) ||
			k.kind == contract.Service.Kind && (k.name == slot.Name(p.name) || k.name == slot.HeadlessName(p.name)) {
			return slot
		}
	}
	return 0
}

// set is the StatefulSet of a slot, empty if there is none.
func (s *slots) set(slot workload.Slot) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	s.scenario.typed(s.scenario.child(contract.StatefulSet, slot.Name(s.scenario.name)), set)
	return set
}

func hashOf(set *appsv1.StatefulSet) string {
	return set.Spec.Template.Annotations[workload.AnnotationBackendHash]
}

// carriedOut judges a write that the API server took.
func (s *slots) carriedOut(o *operation) {
	switch {
	case s == nil:
	case o.of == key{contract.MCPServer.Kind, s.scenario.name} && o.before != nil && o.answer != nil:
		before, after := &v1alpha1.MCPServer{}, &v1alpha1.MCPServer{}
		s.scenario.typed(o.before, before)
		s.scenario.typed(o.answer, after)
		s.moves(o, before, after)
	case o.by != nil && s.scenario.slotOf(o.of) != 0:
		s.replaces(o, s.scenario.slotOf(o.of))
	}
}

// moves judges and notes a change of the server.
func (s *slots) moves(o *operation, before, after *v1alpha1.MCPServer) {
	was, is, tally := before.Status, after.Status, s.scenario.tally
	if was.Active != nil && is.Active == nil {
		s.scenario.checker.found(pointerLost, "%s", o)
		return
	}
	if was.Rollout == nil && is.Rollout != nil {
		tally["rollout begins"]++
	}
	if last := is.LastRollout; last != nil && (was.LastRollout == nil || *last != *was.LastRollout) {
		tally["rollout ends: "+string(last.State)]++
	}
	if was.Rollout != nil && is.Rollout == nil {
		for _, step := range was.Rollout.Steps {
			if v1alpha1.NeedsApproval(step.Reason) {
				tally["held for an approval"]++
			}
		}
	}
	s.sessionsEnd = min(s.sessionsEnd, sessionsEnd(after))
	s.halted = s.halted || halted(after)
	moved := was.Active != nil && was.Active.Slot != is.Active.Slot
	switch {
	case moved:
		s.proven(o, before, after)
		tally["calls move"]++
		if is.Active.Slot == int32(workload.Slot1) {
			tally["slot 1 serves again"]++
		}
		s.since, s.left, s.sessionsEnd = is.Active.Since.Time, &was.Active.BackendContent, sessionsEnd(after)
		// Content that replaces other content may be ready beside it already: sessions end as where it is in its place.
		s.halted, s.other = halted(after) || !comesBeside(before), time.Time{}
	case is.Workload != nil && is.Active != nil && is.Workload.BackendHash != is.Active.Hash && s.other.IsZero():
		s.other = s.scenario.clock
	case is.Workload != nil && is.Active != nil && is.Workload.BackendHash == is.Active.Hash:
		s.other = time.Time{}
	}
	if from := fromOf(was); from != nil && !moved && fromOf(is) == nil && s.left != nil && from.Hash == s.left.Hash {
		s.drained(o)
	}
}

func fromOf(status v1alpha1.MCPServerStatus) *v1alpha1.BackendContent {
	if status.Rollout == nil {
		return nil
	}
	return status.Rollout.From
}

func sessionsEnd(server *v1alpha1.MCPServer) time.Duration {
	return server.Spec.Rollout.SessionsEnd.Duration
}

func halted(server *v1alpha1.MCPServer) bool {
	return server.Spec.Suspend || ptr.Deref(server.Spec.Replicas, 1) == 0
}

// comesBeside reports whether content that is asked for comes up beside what serves.
func comesBeside(server *v1alpha1.MCPServer) bool {
	claim := server.Status.Workload
	return server.Spec.Rollout.Strategy == v1alpha1.StrategySuccessive && claim != nil &&
		claim.Strategy == v1alpha1.StrategySuccessive
}

// proven judges whether content that gets calls from now on was seen to be up, by a look at the API server in the same
// pass, and to answer, and was not held.
func (s *slots) proven(o *operation, before, after *v1alpha1.MCPServer) {
	found, active, status := s.scenario.checker.found, after.Status.Active, before.Status
	needs := ptr.Deref(before.Spec.Replicas, 1)
	if !comesBeside(before) {
		needs = 1
	} else if plan := status.Rollout; plan == nil || plan.Target.Hash != active.Hash || plan.Target.Slot != active.Slot {
		found(unproven, "%s: no rollout is to %s", o, active.Hash)
		return
	}
	looked := &appsv1.StatefulSet{}
	set := key{contract.StatefulSet.Kind, workload.Slot(active.Slot).Name(s.scenario.name)}
	if o.by == nil || !s.scenario.typed(o.by.live[set], looked) || hashOf(looked) != active.Hash ||
		looked.Status.ObservedGeneration < looked.Generation || looked.Status.ReadyReplicas < needs {
		found(unproven, "%s: by a look in the same pass its pods are not ready", o)
	}
	if !comesBeside(before) {
		return
	}
	var candidate v1alpha1.CandidateStatus
	if status.Runtime != nil && status.Runtime.Candidate != nil {
		candidate = *status.Runtime.Candidate
	}
	if candidate.Hash != active.Hash || !candidate.Answers {
		found(unproven, "%s: its report is %+v", o, candidate)
	}
	rollout := before.Spec.Rollout
	approved := rollout.Approved != "" && strings.HasPrefix(active.Hash, rollout.Approved)
	if !approved && (rollout.Hold == v1alpha1.HoldAlways || rollout.Hold != v1alpha1.HoldNever && candidate.Lost > 0) {
		found(unproven, "%s: it is held", o)
	}
}

// replaces judges a write of ours about an object of a slot.
func (s *slots) replaces(o *operation, slot workload.Slot) {
	status, found := s.status(), s.scenario.checker.found
	active, claim := status.Active, status.Workload
	if active == nil || s.scenario.server().GetDeletionTimestamp() != nil {
		return
	}
	if workload.Slot(active.Slot) != slot {
		if left := s.left; o.Verb == "delete" && left != nil && workload.Slot(left.Slot) == slot && s.isOf(o, left.Hash) &&
			!s.acknowledged() && s.scenario.clock.Before(s.since.Add(acknowledgedBy)) && !s.halted {
			found(tornDown, "%s by %s", o, o.by)
		}
		return
	}
	if o.Verb == "delete" {
		found(robbed, "%s by %s", o, o.by)
		return
	}
	before, after := &appsv1.StatefulSet{}, &appsv1.StatefulSet{}
	if !s.scenario.typed(o.before, before) || o.of.kind != contract.StatefulSet.Kind {
		return
	}
	s.scenario.typed(o.answer, after)
	beside := claim != nil && claim.Strategy == v1alpha1.StrategySuccessive
	if beside && hashOf(before) == active.Hash && hashOf(after) != active.Hash {
		found(robbed, "%s by %s: it has %s, and %s gets the calls", o, o.by, hashOf(after), active.Hash)
	}
	// Who scales goes by the server that it has read.
	asked := &v1alpha1.MCPServer{}
	if s.scenario.typed(o.by.read(key{contract.MCPServer.Kind, s.scenario.name}), asked) && !halted(asked) &&
		*after.Spec.Replicas < *before.Spec.Replicas && *after.Spec.Replicas < ptr.Deref(asked.Spec.Replicas, 1) {
		found(robbed, "%s by %s: it has %d pods", o, o.by, *after.Spec.Replicas)
	}
}

// isOf reports whether what is deleted is of content: the StatefulSet that has it, or a Service before it.
func (s *slots) isOf(o *operation, hash string) bool {
	set := &appsv1.StatefulSet{}
	if o.of.kind == contract.StatefulSet.Kind {
		s.scenario.typed(o.before, set)
	} else {
		set = s.set(s.scenario.slotOf(o.of))
	}
	return hashOf(set) == hash
}

// runners are the proxies that run.
func (s *slots) runners() []*process {
	return slices.DeleteFunc(slices.Clone(s.scenario.processes), func(a *process) bool {
		return !a.isRunner() || !a.alive()
	})
}

// acknowledged reports whether all proxies have calls go where the status says.
func (s *slots) acknowledged() bool {
	active := s.status().Active
	return !slices.ContainsFunc(s.runners(), func(a *process) bool {
		routes := a.routes().Active
		return routes == nil || routes.Slot != active.Slot || routes.Hash != active.Hash
	})
}

// isQuiet reports whether all proxies have calls go where the status says, and none has seen a session of what those
// have left for a while.
func (s *slots) isQuiet() bool {
	if s.left == nil || !s.acknowledged() {
		return false
	}
	return !slices.ContainsFunc(s.runners(), func(a *process) bool {
		last := a.proxy.born
		if seen := a.proxy.seen[s.left.Hash]; seen.After(last) {
			last = seen
		}
		return s.scenario.now < a.proxy.calls[s.left.Hash] || s.scenario.clock.Sub(last) < min(quietFor, s.sessionsEnd)
	})
}

// drained judges a write by which sessions of the content that calls have left are waited for no more.
func (s *slots) drained(o *operation) {
	now := s.scenario.clock
	switch {
	case o.by != nil && o.by.quiet:
		s.scenario.tally["sessions end a drain"]++
	case s.halted, !now.Before(s.since.Add(s.sessionsEnd).Truncate(time.Second)):
	case !s.other.IsZero() && !now.Before(s.other.Add(hurriedBy).Truncate(time.Second)):
	default:
		s.scenario.checker.found(sessionsLost, "%s, %s after the switch", o, now.Sub(s.since))
	}
}

// rest judges what stands once the last content has been rolled out.
func (s *slots) rest() {
	status, found := s.status(), s.scenario.checker.found
	if status.Active == nil || status.Rollout != nil || status.Workload.BackendHash != status.Active.Hash {
		found(mixed, "active is %+v, the rollout %+v, the last %+v, the claim %+v", status.Active, status.Rollout,
			status.LastRollout, status.Workload)
		return
	}
	for _, o := range s.scenario.world.standing() {
		if slot := s.scenario.slotOf(key{o.GetKind(), o.GetName()}); slot != 0 && slot != workload.Slot(status.Active.Slot) {
			found(mixed, "%s %s, and slot %d serves", o.GetKind(), o.GetName(), status.Active.Slot)
		}
	}
	set := s.set(workload.Slot(status.Active.Slot))
	if hashOf(set) != status.Active.Hash || set.Status.ReadyReplicas != 2 {
		found(mixed, "%d pods are ready of %s, and %s serves", set.Status.ReadyReplicas, hashOf(set), status.Active.Hash)
	}
}
