package snapshot

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// RunnerState is whether the runner has done what is its part.
type RunnerState int

const (
	// Unsaid means that the runner has not said.
	Unsaid RunnerState = iota
	// Done means that it has.
	Done
	// Fails means that it could not.
	Fails
)

// Reported is what the status said before this pass.
type Reported struct {
	// Ready is nil where nothing was said.
	Ready *metav1.Condition
	// Phase is status.phase, how the server fared, and not plan.Phase.
	Phase v1alpha1.WorkloadPhase
	// Claim is nil, and Claimed zero, where nothing was claimed.
	Claim   *v1alpha1.WorkloadStatus
	Claimed revision.Revision
	// Active is the backend that gets the calls, nil where nothing was said.
	Active *v1alpha1.ActiveBackend
	// Rollout is the rollout of other content that is under way, nil for none, and LastRollout what the last one came to.
	Rollout     *v1alpha1.RolloutStatus
	LastRollout *v1alpha1.RolloutOutcome
	// Runtime is what the runner of this server reports, nil for nothing.
	Runtime *v1alpha1.RuntimeStatus
	// RunnerPhase is how the server fared for the runner.
	RunnerPhase v1alpha1.WorkloadPhase
	// Applied is whether the runner has applied the backend, unsaid where it leaves that to another one, and Answers
	// whether MCP answers; the conditions are those that say so, nil for none.
	Applied, Answers               RunnerState
	BackendApplied, BackendAnswers *metav1.Condition
	Reconciling, Stalled           *metav1.Condition
	// Replicas and ReadyReplicas are those of the backend, nil where nothing was said.
	Replicas, ReadyReplicas *int32
}

// WasServing reports whether the last report said that calls are served, with whatever content.
func (r *Reported) WasServing() bool {
	return r.Phase == v1alpha1.PhaseServing || r.Phase == v1alpha1.PhasePending
}

// IsReady reports whether Ready was True.
func (r *Reported) IsReady() bool { return r.Ready != nil && r.Ready.Status == metav1.ConditionTrue }

// HasClaimed reports whether rev is claimed.
func (r *Reported) HasClaimed(rev revision.Revision) bool { return r.Claim != nil && r.Claimed == rev }

// AnswersOf is whether MCP answers for the content of a backend, as the runner says.
func (r *Reported) AnswersOf(hash string) RunnerState {
	switch {
	case r.Runtime == nil:
	case r.Runtime.BackendHash == hash:
		return r.Answers
	case r.Runtime.BackendHash == "" && r.Claim != nil && r.Claim.BackendHash == hash &&
		r.Runtime.Generation == r.Claim.Generation: // it is of an earlier release
		return r.Answers
	}
	return Unsaid
}

func reported(object kinds.Object) Reported {
	status := object.GetProxyStatus()
	find := func(conditionType string) *metav1.Condition {
		return meta.FindStatusCondition(status.Conditions, conditionType)
	}
	r := Reported{
		Phase: conditions.Phase(status.Phase, status.Conditions),
		Ready: find(v1alpha1.ConditionReady), Claim: status.Workload,
		BackendApplied: find(v1alpha1.ConditionBackendApplied), BackendAnswers: find(v1alpha1.ConditionBackendAnswers),
		Reconciling: find(v1alpha1.ConditionReconciling), Stalled: find(v1alpha1.ConditionStalled),
	}
	if r.Claim != nil {
		r.Claimed = revision.Revision{Generation: r.Claim.Generation, Hash: r.Claim.Hash}
	}
	var stated v1alpha1.WorkloadPhase
	if status.Runtime != nil && status.Runtime.ServerUID == string(object.GetUID()) {
		r.Runtime, stated = status.Runtime, status.Runtime.Phase
	}
	r.RunnerPhase = conditions.RunnerPhase(stated, status.Conditions)
	if server, is := object.(*v1alpha1.MCPServer); is {
		r.Active, r.Rollout, r.LastRollout = server.Status.Active, server.Status.Rollout, server.Status.LastRollout
		r.Replicas, r.ReadyReplicas = server.Status.Replicas, server.Status.ReadyReplicas
	}
	r.Applied, r.Answers = runnerState(r.BackendApplied), runnerState(r.BackendAnswers)
	if r.Applied == Fails && r.RunnerPhase == v1alpha1.PhaseUpdating {
		r.Applied = Unsaid
	}
	return r
}

func runnerState(c *metav1.Condition) RunnerState {
	switch {
	case c == nil:
		return Unsaid
	case c.Status == metav1.ConditionTrue:
		return Done
	case c.Status == metav1.ConditionFalse:
		return Fails
	}
	return Unsaid
}
