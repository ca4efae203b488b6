package report

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// ready words the verdict, or what the API server refused, which is why nothing moves. That it was not there for a
// moment makes nothing less ready. wait is how the server fares then.
func ready(s *snapshot.Snapshot, made plan.Plan, told error) (answer conditions.Finding, wait plan.Wait) {
	v := &made.Verdict
	told = apply.WithoutConflicts(told)
	if told != nil && (!s.Last.WasServing() || v.Halt != plan.Runs || apply.Refused(told) != nil) {
		answer, wait.Phase = refused(told)
		return answer, wait
	}
	return worded(s, made), made.Wait()
}

func worded(s *snapshot.Snapshot, made plan.Plan) conditions.Finding {
	v := &made.Verdict
	switch v.Ready {
	case plan.Halted:
		return halted(s, made)
	case plan.NotAccepted:
		return accepted(made)
	case plan.Unclaimed:
		return unclaimed(made)
	case plan.RollsOut, plan.RolloutHeld, plan.RolloutFailed:
		return rolls(s, made)
	case plan.PodsFail, plan.SlotTaken:
		return *v.Failure
	case plan.RunnerFails:
		return conditions.Restate(s.Last.BackendApplied)
	case plan.NoAnswer:
		return conditions.Restate(s.Last.BackendAnswers)
	case plan.StaysRefused:
		return conditions.Restate(s.Last.Ready)
	case plan.Pending:
		return rollout.Pending(v.WaitsFor.Kind, v.WaitsFor.Name)
	case plan.Serves:
		return conditions.True(v1alpha1.ReasonReady, "MCP calls are served at "+address(s.Object)+differ(s, made))
	case plan.Updating, plan.Starting, plan.Unavailable:
	}
	return waits(s, made)
}

// differ says that pods of the backend run different images under one tag.
func differ(s *snapshot.Snapshot, made plan.Plan) string {
	images := s.Pods.Images(s.Active.Component(), made.Digest.Backend)
	if len(images) < 2 || made.Digest.Pinned {
		return ""
	}
	return ". Its pods run different images, since a tag leads to another image than before (" +
		strings.Join(images, ", ") + "): write a digest into spec.image"
}

// waits words for what a server waits where nothing is wrong. One message for the whole
// way: each step of it would be a write.
func waits(s *snapshot.Snapshot, made plan.Plan) conditions.Finding {
	both := func(both, proxy string) string {
		if s.Kind.Backend {
			return both
		}
		return proxy
	}
	reason, text := v1alpha1.ReasonUpdating, "waiting for pods with the new content to replace the older ones"
	switch made.Verdict.Ready {
	case plan.Starting:
		reason = v1alpha1.ReasonStarting
		text = "waiting for pods of " + both("the proxy and the backend", "the proxy") + " to become ready"
	case plan.Unavailable:
		reason = v1alpha1.ReasonUnavailable
		text = "the rollout is complete, but no pod of the proxy is ready" + both(", or none of the backend", "")
	default:
		if s.Last.WasServing() && !s.Last.HasClaimed(made.Target) {
			return conditions.False(reason, text) // what keeps its pods from being ready is not why
		}
	}
	return conditions.False(reason, text+s.Unready(made.Wanted(s)))
}

func refused(err error) (conditions.Finding, v1alpha1.WorkloadPhase) {
	var unadoptable *apply.Unadoptable
	switch {
	case errors.As(err, &unadoptable):
		return conditions.NotAdoptable(apply.Parts(err)...), v1alpha1.PhaseBlocked
	case errors.Is(err, apply.ErrForeign):
		return conditions.NameTaken(apply.Parts(err)...), v1alpha1.PhaseBlocked
	}
	return conditions.False(v1alpha1.ReasonApplyFailed, err.Error()), v1alpha1.PhaseRefused
}

// halted says that no calls are served by intent, and which.
func halted(s *snapshot.Snapshot, made plan.Plan) conditions.Finding {
	switch made.Verdict.Halt {
	case plan.Suspended:
		return conditions.False(v1alpha1.ReasonSuspended, "spec.suspend is true: set it to false to start the server again")
	case plan.ScaledToZero:
		replicas := "spec.proxy.replicas is 0"
		if s.Kind.Backend {
			replicas = "spec.replicas or " + replicas
		}
		return conditions.False(v1alpha1.ReasonScaledToZero, replicas+": raise it to start the server again")
	case plan.Runs, plan.NotEnforced:
	}
	text, fields := "%s is set, and this version does not enforce it: calls are refused until it is removed",
		made.Digest.NotEnforced
	if len(fields) > 1 {
		text = "%s are set, and this version does not enforce them: calls are refused until they are removed"
	}
	return conditions.False(v1alpha1.ReasonNotEnforced, fmt.Sprintf(text, strings.Join(fields, ", ")))
}

// mostProblems are as many as a person reads.
const mostProblems = 20

// accepted says what is wrong with a spec by itself, whatever runs.
func accepted(made plan.Plan) conditions.Finding {
	v := &made.Verdict
	if made.Accepted() {
		return conditions.True(v1alpha1.ReasonAccepted, "")
	}
	texts := make([]string, 0, len(v.Problems))
	for _, p := range v.Problems {
		texts = append(texts, p.String())
	}
	if len(texts) > mostProblems {
		texts = append(texts[:mostProblems], "and more: correct these first")
	}
	runs := "Nothing runs before that"
	switch v.Running {
	case plan.ProxyStopped:
		runs = "The proxy is stopped until then, because it does not enforce what the spec asks for"
	case plan.LastAccepted:
		runs = "The last accepted content keeps running"
	case plan.NothingRuns:
	}
	return conditions.False(cmp.Or(v.Reason, v1alpha1.ReasonSpecInvalid), strings.Join(texts, "; ")+". "+runs)
}

// unclaimed says which children carry a number that no claim made. It is not followed, since the one in the status
// could never go back; and it may not be lowered either but by hand, since it may be of newer content all the same.
func unclaimed(made plan.Plan) conditions.Finding {
	names := make([]string, 0, len(made.Verdict.Unclaimed))
	for _, child := range made.Verdict.Unclaimed {
		names = append(names, fmt.Sprintf("%s %s carries %d", child.Kind, child.Name, child.Revision.Generation))
	}
	return conditions.False(v1alpha1.ReasonUnclaimedGeneration, fmt.Sprintf(
		"%s as workload generation, which this server never claimed, so Freehold writes no content there: "+
			"delete that object, and Freehold makes it again, or set it back to %d as docs/policies.md describes",
		strings.Join(names, ", "), made.Target.Generation))
}
