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
)

// Facts are what a backend says about itself. A count that is nil could not be
// learned.
type Facts struct {
	// Answers is what BackendAnswers is to say; zero while it was not asked.
	Answers          conditions.Finding
	Server           *v1alpha1.ServerInfo
	ProtocolVersions []string
	Tools            *int32
	Prompts          *int32
	Resources        *int32
}

// announce says, before anything is written, that this generation runs. It
// sends nothing where that already stands. What it says about the backend's
// objects stays as it is until the gate has spoken.
func (r *Runner) announce(ctx context.Context, w snapshot) error {
	server := w.owner
	if reported(server, r) {
		return nil
	}
	status := v1alpha1ac.ProxyWorkloadStatus().WithRuntime(r.runtime(server))
	if last := meta.FindStatusCondition(server.GetProxyStatus().Conditions,
		v1alpha1.ConditionBackendApplied); last != nil {
		f := conditions.Finding{Status: last.Status, Reason: last.Reason, Message: last.Message}
		status.WithConditions(r.stamp(server, last.Type, f))
	}
	return r.putStatus(ctx, server,
		status.WithConditions(r.stamp(server, v1alpha1.ConditionBackendAnswers, r.answers(server))))
}

// asksFirst is how long the first report still waits for what the backend says. Where
// only the proxy's half is new, a backend of this content runs already, and one report
// tells all.
func (r *Runner) firstAnswerWait(w snapshot) time.Duration {
	if r.pendingReport || reported(w.owner, r) || r.started(w.statefulSet) == (Start{}) {
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

// state reports the outcome, with what was learned since the last report.
func (r *Runner) reportOutcome(ctx context.Context, w snapshot, f conditions.Finding) error {
	server := w.owner
	status := v1alpha1ac.ProxyWorkloadStatus().WithRuntime(r.runtime(server))
	if r.Run.Remote == nil {
		status.WithConditions(r.stamp(server, v1alpha1.ConditionBackendApplied, f))
	}
	status.WithConditions(r.stamp(server, v1alpha1.ConditionBackendAnswers, r.answers(server)))
	if err := r.putStatus(ctx, server, status); err != nil {
		return err
	}
	r.pendingReport = false
	return nil
}

func (r *Runner) putStatus(
	ctx context.Context, server kinds.Object, status *v1alpha1ac.ProxyWorkloadStatusApplyConfiguration,
) error {
	return r.applyAs(ctx, kinds.Of(server).ReportManager, server, kinds.Status(server, status))
}

func (r *Runner) stamp(
	server kinds.Object, conditionType string, f conditions.Finding,
) *metav1ac.ConditionApplyConfiguration {
	return conditions.Stamp(server.GetProxyStatus().Conditions, conditionType, f, observedGeneration(server, conditionType, f),
		r.now())
}

// observed is the metadata.generation that a condition speaks of. It moves
// only with the finding: a new spec that changes nothing here, such as another
// number of replicas, would otherwise be a write of every runner. What somebody
// took out is stated anew: the API server drops a 0.
func observedGeneration(server kinds.Object, conditionType string, f conditions.Finding) int64 {
	last := meta.FindStatusCondition(server.GetProxyStatus().Conditions, conditionType)
	if last != nil && last.ObservedGeneration > 0 && last.Status == f.Status && last.Reason == f.Reason &&
		last.Message == f.Message {
		return last.ObservedGeneration
	}
	return server.GetGeneration()
}

// runtime is this runner's part of the status.
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
	return runtime
}

// facts are what to say about the backend. What was learned since the last
// report wins. Else what stands is repeated, so that two replicas which learned
// different things do not write in turns; and if nothing stands any more, since
// one that knew nothing reported on an old view, what is known is said again.
// What stands of another generation says nothing about this one's backend.
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

// answers is whether MCP answers for this content. True stays: what becomes of
// the backend later is told by its pods and by the answers to calls. A server that
// runs elsewhere has no pods to tell it, so there also True gives way to what is
// learned. Of two replicas that were told different things, the one that learns
// speaks last, and one that was answered over one that was not.
func (r *Runner) answers(server kinds.Object) conditions.Finding {
	stands := meta.FindStatusCondition(server.GetProxyStatus().Conditions, v1alpha1.ConditionBackendAnswers)
	news := r.learned.Answers
	if stands == nil || !reported(server, r) {
		stands = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotAsked, Message: r.notAsked()}
	}
	if news.Status != "" && (stands.Status != metav1.ConditionTrue || r.Run.Remote != nil) &&
		(r.pendingReport || news.Status == metav1.ConditionTrue || stands.Status == metav1.ConditionUnknown) {
		return news
	}
	return conditions.Finding{Status: stands.Status, Reason: stands.Reason, Message: stands.Message}
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

// finding words how the writes ended. The error is what is left to the queue:
// also a refusal, because the end of a quota or of a policy is no event here.
//
// Where another manager holds fields of the backend the words follow from what
// stands there alone, so that two replicas do not say it in turns.
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

// reworded is how often the words of a refusal may change.
const messageChangeInterval = time.Minute

// steady keeps the words of a refusal that stand, of the same reason and workload
// generation. They are the API server's, or a webhook's, and may be others each
// time: each change is a write, which wakes the pass that is refused again.
func (r *Runner) stabilizeMessage(server kinds.Object, f conditions.Finding) conditions.Finding {
	stands := meta.FindStatusCondition(server.GetProxyStatus().Conditions, v1alpha1.ConditionBackendApplied)
	now := r.now()
	news := stands == nil || stands.Reason != f.Reason || !reported(server, r)
	switch {
	case news || r.messageChanged.IsZero() || now.Sub(r.messageChanged) >= messageChangeInterval:
		r.messageChanged = now
	default:
		f.Message = stands.Message
	}
	return f
}
