package rollout

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// Workload is what the plan reads of a workload.
type Workload struct {
	// Name is its key among the workloads of all kinds.
	Name string
	// Stopped says that it has no pods to replace, by intent, or is being deleted.
	Stopped    bool
	Claim      *v1alpha1.WorkloadStatus
	Runtime    *v1alpha1.RuntimeStatus
	Conditions []metav1.Condition
}

// OfServer is an object in the form of an MCPServer as a workload.
func OfServer(server *v1alpha1.MCPServer) Workload {
	none := func(replicas *int32) bool { return replicas != nil && *replicas == 0 }
	spec, status := &server.Spec, &server.Status
	return Workload{
		Name: kinds.Key(server),
		Stopped: server.DeletionTimestamp != nil || spec.Suspend || none(spec.Replicas) ||
			spec.Proxy != nil && none(spec.Proxy.Replicas),
		Claim: status.Workload, Runtime: status.Runtime, Conditions: status.Conditions,
	}
}

// Has reports whether the workload was claimed with a configuration, whatever that
// said then.
func (w Workload) Has(kind, name string) bool {
	return w.Claim != nil && slices.ContainsFunc(w.Claim.Configs, func(c v1alpha1.WorkloadConfig) bool {
		return c.Kind == kind && c.Name == name
	})
}

// wrong are the reasons of a workload whose reference is wrong, by the kind that it
// refers to: it takes a content of that kind once the reference is right again, and
// until then none of another. What it refuses to begin with, since it is being
// deleted, is of no kind.
var wrong = map[string]string{
	v1alpha1.ReasonAuthzConfigInvalid:  "MCPAuthzConfig",
	v1alpha1.ReasonAuthzConfigNotFound: "MCPAuthzConfig",
	v1alpha1.ReasonAuthzConfigDeleting: "",
	v1alpha1.ReasonOIDCConfigNotFound:  "MCPOIDCConfig",
	v1alpha1.ReasonOIDCConfigDeleting:  "",
}

// Member is the workload as one that refers to a configuration whose content has
// this hash.
func (w Workload) Member(kind, name, hash string) Member {
	m := Member{Name: w.Name, Phase: w.phase(v1alpha1.WorkloadConfig{Kind: kind, Name: name, Hash: hash})}
	ready := meta.FindStatusCondition(w.Conditions, v1alpha1.ConditionReady)
	m.Elsewhere = m.Phase == Waiting && ready.Reason == v1alpha1.ReasonRolloutPending && ready.Message != Pending(kind, name).Message
	return m
}

// Pending is what a workload says of Ready while it waits for its turn in a
// configuration.
func Pending(kind, name string) conditions.Finding {
	return conditions.False(v1alpha1.ReasonRolloutPending, fmt.Sprintf(
		"%s %q has changed, and servers take the change in turns: calls are served with the content before until it is this one's turn. "+
			"See the condition RolledOut of the %[1]s", kind, name))
}

func (w Workload) phase(config v1alpha1.WorkloadConfig) Phase {
	has := w.Claim != nil && slices.Contains(w.Claim.Configs, config)
	missing := Done
	if !has {
		missing = Apart
	}
	ready := meta.FindStatusCondition(w.Conditions, v1alpha1.ConditionReady)
	switch {
	case w.Stopped, w.Claim == nil, ready == nil:
		return missing
	case ready.Status == metav1.ConditionTrue && has:
		return Done
	case ready.Status == metav1.ConditionTrue:
		return Waiting
	}
	rolling := ready.Reason == v1alpha1.ReasonStarting || ready.Reason == v1alpha1.ReasonUpdating
	of, isWrong := wrong[ready.Reason]
	waiting := ready.Reason == v1alpha1.ReasonRolloutPending || isWrong && of == config.Kind
	switch {
	// Its claim was refused: that of the next one would be, too.
	case !has && ready.Reason == v1alpha1.ReasonApplyFailed && w.Answered():
		return Failed
	// Another reference keeps it from taking this one.
	case isWrong && of != config.Kind:
		return Apart
	// Taken down by its own pass, which claims next: it was admitted.
	case !has && rolling && w.Answered():
		return Moving
	case !has && waiting && (w.Answered() || !w.Claim.ConfigRollout):
		return Waiting
	// It is ready with the content, and waits for that of another configuration.
	case has && ready.Reason == v1alpha1.ReasonRolloutPending && w.Answered(),
		has && ready.Reason == v1alpha1.ReasonStarting && !w.Claim.ConfigRollout:
		return Done
	// What is wrong came later. Older pods may still serve.
	case w.Answered() && !rolling:
		return Apart
	// It moves by a change of its own, and older pods may still serve.
	case !w.Claim.ConfigRollout:
		return Apart
	case !has, waiting, rolling && !meta.IsStatusConditionTrue(w.Conditions, v1alpha1.ConditionStalled):
		return Moving
	}
	return Failed
}

// Answered reports whether MCP has answered through a proxy of the claimed content:
// what goes wrong after that is not for the content.
func (w Workload) Answered() bool {
	return w.Runtime != nil && w.Runtime.Generation >= w.Claim.Generation &&
		meta.IsStatusConditionTrue(w.Conditions, v1alpha1.ConditionBackendAnswers)
}
