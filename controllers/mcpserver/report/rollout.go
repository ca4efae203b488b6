package report

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/mcpserver/successive"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// shownHash is as much of a hash as a person reads, and as names of objects have.
const shownHash = 10

func short(hash string) string { return hash[:min(len(hash), shownHash)] }

// rolls says of content that comes up beside what serves why it has no calls yet.
func rolls(s *snapshot.Snapshot, made plan.Plan) conditions.Finding {
	step := made.Rollout.Step
	switch made.Rollout.State {
	case successive.Held:
		return conditions.False(v1alpha1.ReasonRolloutHeld, held(s, made)+unserved(s, made))
	case successive.Paused:
		return conditions.False(v1alpha1.ReasonRolloutHeld, "spec.rollout.paused is true: set it to false, or run "+
			"kubectl freehold rollout resume "+s.Object.GetName()+", and the rollout of the new content goes on"+
			unserved(s, made))
	case successive.Failed:
		return conditions.False(v1alpha1.ReasonRolloutFailed, failed(made.Next.Last))
	case successive.WaitsForDrain:
		if step.Name == v1alpha1.StepAcknowledge {
			return conditions.False(v1alpha1.ReasonUpdating,
				"the new content waits until every proxy calls the content of the rollout before, for a minute at most")
		}
		return conditions.False(v1alpha1.ReasonUpdating,
			"the new content waits for the end of the sessions that the rollout before has left, for two minutes at most")
	case successive.WaitsForSlot:
		return conditions.False(v1alpha1.ReasonUpdating, "the new content waits for its place: "+leaves(s))
	case successive.Rest, successive.Moving, successive.Ending:
	}
	waits := "waiting for a plan"
	switch step.Name {
	case v1alpha1.StepProxies:
		waits = "waiting for proxies that know it to become available"
	case v1alpha1.StepCandidate:
		waits = "waiting for its pods to become ready"
	case v1alpha1.StepCheck:
		waits = "waiting for its check, which asks its pods for MCP and their tools"
	}
	text := "new content comes up beside what serves: " + waits
	if step.Message != "" {
		text += "; " + step.Message
	}
	return conditions.False(v1alpha1.ReasonUpdating, text)
}

// mostTools are as many as a person reads.
const mostTools = 10

func held(s *snapshot.Snapshot, made plan.Plan) string {
	why := "spec.rollout.hold is Always"
	if made.Rollout.Step.Reason == v1alpha1.ReasonImagesDiffer {
		why = "its pods run different images, since a tag leads to another image than before: write a digest into spec.image"
	}
	if made.Rollout.Step.Reason == v1alpha1.ReasonLostTools && s.Last.Runtime != nil && s.Last.Runtime.Candidate != nil {
		lost := s.Last.Runtime.Candidate
		names := strings.Join(lost.LostTools[:min(len(lost.LostTools), mostTools)], ", ")
		if int(lost.Lost) > mostTools {
			names += ", and more"
		}
		why = fmt.Sprintf("%d tools are missing in it, or ask for more arguments than before: %s", lost.Lost, names)
		switch lost.Lost {
		case 0: // it was compared by a runner before
			why = "tools were missing in it, or asked for more arguments, when they were compared"
		case 1:
			why = fmt.Sprintf("a tool is missing in it, or asks for more arguments than before: %s", names)
		}
		if lost.Message != "" {
			why = fmt.Sprintf("%s, and %s", lost.Message, why)
		}
	}
	text := fmt.Sprintf("new content was checked, and waits for an approval, because %s. To let it have the calls, run "+
		"kubectl freehold rollout approve %s, or set spec.rollout.approved to %s; to keep what serves, write its content "+
		"into the spec again", why, s.Object.GetName(), short(made.Next.Rollout.Target.Hash))
	if refers := made.Rollout.Step.Message; refers != "" {
		text += ". Of the new content " + refers
	}
	return text
}

// timedOut says what did not happen in time.
var timedOut = map[string]string{
	v1alpha1.ReasonProxiesNotAvailable: "proxies that know it did not become available in time",
	v1alpha1.ReasonCandidateNotReady:   "its pods did not become ready in time",
	v1alpha1.ReasonNotAsked:            "its pods were not asked for their tools in time",
}

func failed(last *v1alpha1.RolloutOutcome) string {
	why := cmp.Or(last.Message, timedOut[last.Reason], last.Reason)
	return fmt.Sprintf("new content %s of workload generation %d did not get the calls: %s. Write other content into the "+
		"spec, or set spec.restartedAt to try this one again",
		short(last.Hash), last.Generation, strings.TrimSuffix(why, "."))
}

// leaves says what stands in the slot that new content needs.
func leaves(s *snapshot.Snapshot) string {
	return cmp.Or(s.Overdue(s.Active.Other()), "earlier content is on its way out")
}

// unserved is what is added where what has the calls does not serve while new content waits for a person.
func unserved(s *snapshot.Snapshot, made plan.Plan) string {
	switch {
	case !made.IncumbentIsReady(s):
		return ". Meanwhile no calls are served: the content that has them has no ready pod, or no proxy is ready"
	case s.ActiveFails():
		return ". Meanwhile no calls are served: the content that has them does not answer, as the condition Available says"
	}
	return ""
}

// available says, while new content comes up beside what serves, whether that serves; nil at any other time, and of a
// server that serves no calls by intent.
func available(s *snapshot.Snapshot, made plan.Plan) *conditions.Finding {
	active := s.Last.Active
	if !made.Rollout.IsServedByOther() || active == nil || made.Verdict.Halt != plan.Runs {
		return nil
	}
	named := fmt.Sprintf("content %s (generation %d)", short(active.Hash), active.Generation)
	switch {
	case !made.IncumbentIsReady(s):
		return new(conditions.False(v1alpha1.ReasonUnavailable,
			"no pod of the proxy is ready, or none of the backend with "+named+", which has the calls"))
	case s.ActiveFails():
		answers := conditions.Restate(s.Last.BackendAnswers)
		answers.Message = "calls go to " + named + ", and " + answers.Message
		return &answers
	}
	return new(conditions.True(v1alpha1.ReasonReady, "calls are served by "+named))
}

// Advances tells that other content got the calls.
func Advances(p *reconcile.Pass, s *snapshot.Snapshot, to plan.WritePlan) {
	if was := s.Last.Active; was != nil && to.Rollout != nil && was.Slot != to.Active.Slot {
		text := fmt.Sprintf("calls go to content %s (generation %d) now; sessions of content %s end at it",
			short(to.Active.Hash), to.Active.Generation, short(was.Hash))
		for _, step := range to.Rollout.Steps {
			if step.Name == v1alpha1.StepCheck && step.Message != "" {
				text += ". Of the new content " + step.Message
			}
		}
		p.Event(corev1.EventTypeNormal, "CallsSwitched", "Switch", text)
	}
}
