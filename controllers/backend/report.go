package backend

import (
	"cmp"
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
	// Content is the hash of what they are of, empty for the runner's own.
	Content string
	// Answers is the finding of BackendAnswers, zero before the first probe.
	Answers          conditions.Finding
	Server           *v1alpha1.ServerInfo
	ProtocolVersions []string
	Tools            *int32
	Prompts          *int32
	Resources        *int32
	// Lost is the finding of ToolsLost, of no status where none is lost; nil where that is not known.
	Lost *conditions.Finding
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

// noticeReport has facts wait no more that this runner did not report, and another of its generation has reported on.
func (r *Runner) noticeReport(server kinds.Object) {
	if r.pendingSinceWait && reported(server, r) {
		r.pendingReport, r.pendingSinceWait = false, false
	}
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
	says := r.says(server)
	status := v1alpha1ac.ProxyWorkloadStatus().WithRuntime(
		r.runtime(server, says).WithPhase(conditions.RunnerPhaseOf(applied, says.Answers)))
	if applied.Status != "" {
		status.WithConditions(r.stamp(server, v1alpha1.ConditionBackendApplied, applied))
	}
	status.WithConditions(r.stamp(server, v1alpha1.ConditionBackendAnswers, says.Answers))
	if says.Lost != nil && says.Lost.Status != "" {
		status.WithConditions(r.stamp(server, v1alpha1.ConditionToolsLost, *says.Lost))
	}
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

func (r *Runner) runtime(server kinds.Object, facts Facts) *v1alpha1ac.RuntimeStatusApplyConfiguration {
	runtime := v1alpha1ac.RuntimeStatus().
		WithServerUID(r.Run.Server.UID).
		WithGeneration(r.mine().Generation).
		WithProtocolVersions(facts.ProtocolVersions...)
	if facts.Content != "" {
		runtime.WithBackendHash(facts.Content)
	}
	runtime.Tools, runtime.Prompts, runtime.Resources = facts.Tools, facts.Prompts, facts.Resources
	if facts.Server != nil {
		runtime.WithServer(v1alpha1ac.ServerInfo().WithName(facts.Server.Name))
		if facts.Server.Version != "" {
			runtime.Server.WithVersion(facts.Server.Version)
		}
	}
	runtime.Candidate = r.candidate(server, facts.Content)
	return runtime
}

// What a list of tools that are lost may hold.
const (
	maxLost     = 32
	maxToolName = 128
)

// candidate is what was seen of the runner's content, while a rollout checks it. Before, what an earlier attempt has
// seen goes, so that the check is of this one. As with facts, what a replica has reported stands until there is news:
// two do not write alternately. Once it has the calls that goes with the report on how it answers them: each write of a
// report wakes the operator. of is the content on which that is.
func (r *Runner) candidate(server kinds.Object, of string) *v1alpha1ac.CandidateStatusApplyConfiguration {
	status, mine, seen := statusOf(server), r.Run.Rendering.Backend, r.candidateSeen
	switched := workload.Switched(status)
	if status.Rollout == nil || status.Rollout.Target.Hash != mine || switched && of == mine ||
		!begun(status.Rollout, stepCheck) {
		return nil
	}
	if stands := status.Runtime; reported(server, r) && (!r.pendingCandidate || switched) && stands.Candidate != nil &&
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

// stands is what is reported: of what this runner says it is, by whichever generation, and of other content by this
// generation alone. That this generation answers callers only its own runners can say, but of what gets the calls
// beside its content.
func (r *Runner) stands(server kinds.Object) (stands Facts) {
	status, own := server.GetProxyStatus(), r.Run.Rendering.Backend
	runtime := status.Runtime
	if runtime == nil || runtime.ServerUID != r.Run.Server.UID {
		return Facts{}
	}
	said := runtime.BackendHash
	if reported(server, r) {
		said = cmp.Or(said, own)
	} else if said == "" || said != r.content {
		return Facts{}
	}
	stands = Facts{
		Content: said, Server: runtime.Server, ProtocolVersions: runtime.ProtocolVersions, Tools: runtime.Tools,
		Prompts: runtime.Prompts, Resources: runtime.Resources,
	}
	answers := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBackendAnswers)
	if answers != nil && (reported(server, r) || said != own) {
		stands.Answers = conditions.Restate(answers)
	}
	// A new generation begins with what its own runners see: whoever makes one has seen what was lost.
	lost := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionToolsLost)
	if lost != nil && reported(server, r) {
		stands.Lost = new(conditions.Restate(lost))
	}
	if active := statusOf(server).Active; !reported(server, r) && active != nil && active.Hash == said &&
		stands.Answers.Status == metav1.ConditionFalse {
		if _, asks := r.asks(active.BackendContent); !asks { // nobody would take it back
			stands.Answers = conditions.Finding{}
		}
	}
	return stands
}

// says is what this runner reports of what gets the calls. New facts replace what is reported, once, so that two
// replicas with different facts do not write alternately: the last one wins, and a success wins over a failure. Until
// something is known of what gets the calls since a moment ago, what was before stands, with its name.
func (r *Runner) says(server kinds.Object) (says Facts) {
	says = r.stands(server)
	news := r.learned
	if news.Content != r.content {
		news = Facts{}
	}
	if says.Content != r.content {
		if news.Answers.Status == "" && news.empty() && reported(server, r) {
			return says
		}
		says = Facts{Content: r.content}
	}
	if !news.empty() && (r.pendingReport && r.pendingFacts || says.empty()) {
		answers, lost := says.Answers, says.Lost
		says = news
		says.Answers, says.Lost = answers, cmp.Or(news.Lost, lost)
	}
	succeeds := news.Answers.Status == metav1.ConditionTrue && says.Answers.Status != metav1.ConditionTrue
	isUnknown := says.Answers.Status == "" || says.Answers.Status == metav1.ConditionUnknown
	switch {
	case news.Answers.Status != "" && (r.pendingReport || succeeds || isUnknown):
		says.Answers = news.Answers
	case says.Answers.Status == "":
		says.Answers = conditions.Finding{
			Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotAsked, Message: r.notAsked(),
		}
	}
	return says
}

// knowsMore reports whether what gets the calls has answered this runner before, and now does not answer, or does
// though it is reported that it does not. Of a failure it goes by proxies of before as long as there may be some: they
// serve then, and know better.
func (r *Runner) knowsMore(server kinds.Object) bool {
	if r.learned.Content != r.content || r.heard != r.content {
		return false
	}
	news, stands := r.learned.Answers.Status, r.stands(server).Answers.Status
	isLast := server.GetProxyStatus().ServedGeneration >= r.mine().Generation
	return news == metav1.ConditionFalse && stands != news && isLast ||
		news == metav1.ConditionTrue && stands == metav1.ConditionFalse
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
