package backend

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Facts are what a backend reports about itself; nil for an unknown count.
type Facts struct {
	// Answers is the finding of BackendAnswers, zero before the first probe.
	Answers          conditions.Finding
	Server           *v1alpha1.ServerInfo
	ProtocolVersions []string
	Tools            *int32
	Prompts          *int32
	Resources        *int32
}

// announce reports this generation before anything is written. It sends nothing if that is reported already, and
// leaves the rest of the report as it is until the gate has decided.
func (r *Runner) announce(ctx context.Context, w snapshot) error {
	server := w.owner
	if reported(server, r) {
		return nil
	}
	var applied conditions.Finding
	if last := meta.FindStatusCondition(server.GetProxyStatus().Conditions,
		v1alpha1.ConditionBackendApplied); last != nil {
		applied = conditions.Restate(last)
	}
	return r.report(ctx, server, applied)
}

// firstAnswerWait is how long the first report still waits for the backend's answer. If only the proxy's half is new,
// a backend of this content runs already, and one report suffices. To compare a candidate takes longer.
func (r *Runner) firstAnswerWait(w snapshot, start Start) time.Duration {
	if r.pendingReport || reported(w.owner, r) || start == (Start{}) || start.Rollout != "" {
		return 0
	}
	if r.waitsSince.IsZero() {
		r.waitsSince = r.now()
	}
	return r.waitsSince.Add(r.AskFirst).Sub(r.now())
}

func reported(server kinds.Object, r *Runner) bool {
	runtime := server.GetProxyStatus().Runtime
	return runtime != nil && runtime.Generation == r.mine().Generation && runtime.ServerUID == r.Run.Server.UID
}

func (r *Runner) reportOutcome(ctx context.Context, w snapshot, f conditions.Finding) error {
	if err := r.report(ctx, w.owner, f); err != nil {
		return err
	}
	r.pendingReport, r.pendingCandidate = false, false
	return nil
}

// report states what this runner knows. applied is the finding of BackendApplied, zero where that is not stated.
func (r *Runner) report(ctx context.Context, server kinds.Object, applied conditions.Finding) error {
	answers := r.answers(server)
	status := v1alpha1ac.ProxyWorkloadStatus().WithRuntime(
		r.runtime(server).WithPhase(conditions.RunnerPhaseOf(applied, answers)))
	if applied.Status != "" {
		status.WithConditions(r.stamp(server, v1alpha1.ConditionBackendApplied, applied))
	}
	status.WithConditions(r.stamp(server, v1alpha1.ConditionBackendAnswers, answers))
	return r.applyAs(ctx, kinds.Of(server).ReportManager, server, kinds.Status(server, status))
}

func (r *Runner) stamp(
	server kinds.Object, conditionType string, f conditions.Finding,
) *metav1ac.ConditionApplyConfiguration {
	return conditions.Stamp(server.GetProxyStatus().Conditions, conditionType, f,
		observedGeneration(server, conditionType, f),
		r.now())
}

// observedGeneration is that of a condition. It changes only with the finding: otherwise a new spec that changes
// nothing here, such as the replicas, would make every runner write. A removed value is stated again: the API server
// drops a 0.
func observedGeneration(server kinds.Object, conditionType string, f conditions.Finding) int64 {
	last := meta.FindStatusCondition(server.GetProxyStatus().Conditions, conditionType)
	if f.SaidBy(last) && last.ObservedGeneration > 0 {
		return last.ObservedGeneration
	}
	return server.GetGeneration()
}

func (r *Runner) runtime(server kinds.Object) *v1alpha1ac.RuntimeStatusApplyConfiguration {
	facts := r.mergedFacts(server)
	runtime := v1alpha1ac.RuntimeStatus().
		WithServerUID(r.Run.Server.UID).
		WithGeneration(r.mine().Generation).
		WithProtocolVersions(facts.ProtocolVersions...)
	runtime.Tools, runtime.Prompts, runtime.Resources = facts.Tools, facts.Prompts, facts.Resources
	if facts.Server != nil {
		runtime.WithServer(v1alpha1ac.ServerInfo().WithName(facts.Server.Name))
		if facts.Server.Version != "" {
			runtime.Server.WithVersion(facts.Server.Version)
		}
	}
	runtime.Candidate = r.candidate(server)
	return runtime
}

// What a list of tools that are lost may hold.
const (
	maxLost     = 32
	maxToolName = 128
)

// candidate is what was seen of the runner's content, while a rollout checks it. Before, what an earlier attempt has
// seen goes, so that the check is of this one. As with facts, what a replica has reported stands until there is news:
// two do not write alternately.
func (r *Runner) candidate(server kinds.Object) *v1alpha1ac.CandidateStatusApplyConfiguration {
	status, mine, seen := statusOf(server), r.Run.Rendering.Backend, r.candidateSeen
	if status.Rollout == nil || status.Rollout.Target.Hash != mine || workload.Switched(status) ||
		!begun(status.Rollout, stepCheck) {
		return nil
	}
	if stands := status.Runtime; reported(server, r) && !r.pendingCandidate && stands.Candidate != nil &&
		stands.Candidate.Hash == mine {
		seen = stands.Candidate
	}
	if seen == nil {
		return nil
	}
	candidate := v1alpha1ac.CandidateStatus().WithHash(mine).WithAnswers(seen.Answers)
	// A zero would be missing in what is read, and be stated again and again.
	if seen.Lost > 0 {
		candidate.WithLost(seen.Lost)
	}
	if seen.Added > 0 {
		candidate.WithAdded(seen.Added)
	}
	for _, tool := range seen.LostTools[:min(len(seen.LostTools), maxLost)] {
		name := []rune(tool)
		candidate.WithLostTools(string(name[:min(len(name), maxToolName)]))
	}
	if seen.Reason != "" {
		candidate.WithReason(seen.Reason)
	}
	if seen.Message != "" {
		candidate.WithMessage(seen.Message)
	}
	return candidate
}

// mergedFacts prefers new facts to reported ones, so that two replicas with different facts do not write alternately.
// If nothing is reported, since a replica without facts wrote on an old view, known facts are stated again. Facts of
// another generation do not count.
func (r *Runner) mergedFacts(server kinds.Object) Facts {
	if reported(server, r) && (!r.pendingReport || r.learned.empty()) {
		s := server.GetProxyStatus().Runtime
		stands := Facts{
			Server: s.Server, ProtocolVersions: s.ProtocolVersions, Tools: s.Tools, Prompts: s.Prompts,
			Resources: s.Resources,
		}
		if !stands.empty() {
			return stands
		}
	}
	return r.learned
}

// answers is whether MCP answers for this content. New facts replace what is reported, once. Of two replicas with
// different facts the last one wins, and a success wins over a failure.
func (r *Runner) answers(server kinds.Object) conditions.Finding {
	stands := meta.FindStatusCondition(server.GetProxyStatus().Conditions, v1alpha1.ConditionBackendAnswers)
	news := r.learned.Answers
	if stands == nil || !reported(server, r) {
		stands = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotAsked, Message: r.notAsked()}
	}
	succeeds := news.Status == metav1.ConditionTrue && stands.Status != metav1.ConditionTrue
	if news.Status != "" && (r.pendingReport || succeeds || stands.Status == metav1.ConditionUnknown) {
		return news
	}
	return conditions.Restate(stands)
}

func (r *Runner) notAsked() string {
	if r.Run.Remote != nil {
		return "the server at spec.url has not been asked yet"
	}
	return "no pod of the backend with this content is ready yet"
}

func (f Facts) empty() bool {
	return f.Server == nil && len(f.ProtocolVersions) == 0 && f.Tools == nil && f.Prompts == nil && f.Resources == nil
}

// finding describes the result of the writes. The error is what the queue retries: also a refusal, because the end of
// a quota or policy is no event here.
//
// A field conflict is described from the live object alone, so that two replicas agree.
func (r *Runner) finding(server kinds.Object, err error) (conditions.Finding, error) {
	conflicts, err := apply.Conflicts(err), apply.WithoutConflicts(err)
	var back *blocked
	var problems podtemplate.Problems
	var unadoptable *apply.Unadoptable
	switch {
	case err == nil && len(conflicts) > 0:
		// The backend serves all the same.
		return conditions.FieldConflict(conflicts), nil
	case err == nil:
		return conditions.True(v1alpha1.ReasonApplied,
			"the backend has the content of the workload generation in status.runtime"), nil
	case errors.As(err, &back):
		return conditions.False(back.reason, back.why), nil
	case errors.As(err, &unadoptable):
		return r.stabilizeMessage(server, conditions.NotAdoptable(err)), err // also a policy may stand in the way
	case errors.Is(err, apply.ErrForeign):
		return conditions.NameTaken(err), nil
	case errors.As(err, &problems):
		return conditions.False(v1alpha1.ReasonSpecInvalid, problems.Error()), nil
	case apply.Refused(err) != nil:
		return r.stabilizeMessage(server, conditions.False(v1alpha1.ReasonApplyFailed, err.Error())), err
	}
	return conditions.Finding{}, err
}

// stabilizeMessage keeps the reported message for the same reason and workload generation for a while.
func (r *Runner) stabilizeMessage(server kinds.Object, f conditions.Finding) conditions.Finding {
	if reported(server, r) {
		stands := meta.FindStatusCondition(server.GetProxyStatus().Conditions, v1alpha1.ConditionBackendApplied)
		if f = f.Stabilized(stands, r.messageChanged, r.now()); f.SaidBy(stands) {
			return f
		}
	}
	r.messageChanged = r.now()
	return f
}
