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
	Stopped bool
	Claim   *v1alpha1.WorkloadStatus
	// Served is the highest workload generation that has served, 0 where none has, or
	// where an earlier release wrote the status: then the runner's report tells.
	Served int64
	// URL is where it served first.
	URL        string
	Runtime    *v1alpha1.RuntimeStatus
	Conditions []metav1.Condition
	// Stated is its status.phase, empty where an earlier release wrote the status.
	Stated v1alpha1.WorkloadPhase
	// Unfollowed are the kinds of the configurations to which it refers and that it could not
	// run with now. Who reads a cache fills them in for one that CouldNotFollow.
	Unfollowed []string
}

// Of is an object as the plan reads it.
func Of(object kinds.Object) Workload {
	proxy, status := object.GetProxySpec().Proxy, object.GetProxyStatus()
	return Workload{
		Name: kinds.Key(object),
		Stopped: object.GetDeletionTimestamp() != nil || kinds.BackendReplicas(object) == 0 ||
			proxy != nil && proxy.Replicas != nil && *proxy.Replicas == 0,
		Claim: status.Workload, Served: status.ServedGeneration, URL: status.URL, Runtime: status.Runtime,
		Conditions: status.Conditions, Stated: status.Phase,
	}
}

// Has reports whether the workload was claimed with a configuration, whatever that said then.
func (w Workload) Has(kind, name string) bool {
	_, has := w.claimed(kind, name)
	return has
}

func (w Workload) claimed(kind, name string) (v1alpha1.WorkloadConfig, bool) {
	if w.Claim == nil {
		return v1alpha1.WorkloadConfig{}, false
	}
	i := slices.IndexFunc(w.Claim.Configs,
		func(c v1alpha1.WorkloadConfig) bool { return c.Kind == kind && c.Name == name })
	if i < 0 {
		return v1alpha1.WorkloadConfig{}, false
	}
	return w.Claim.Configs[i], true
}

// InTurn reports whether a claim has taken a configuration in turn.
func InTurn(claim *v1alpha1.WorkloadStatus) bool {
	return claim != nil && (claim.ConfigRollout ||
		slices.ContainsFunc(claim.Configs, func(c v1alpha1.WorkloadConfig) bool { return c.InTurn }))
}

// HasServed reports whether the content that the workload claimed last has served once.
// Earlier releases did not record it: it is read from what the runner reports of that
// generation, which keeps what the server said of itself when it answered.
func (w Workload) HasServed() bool {
	if w.Claim == nil || w.Served > 0 {
		return w.Claim != nil && w.Served >= w.Claim.Generation
	}
	return w.now("") == Serving ||
		w.Runtime != nil && w.Runtime.Generation >= w.Claim.Generation &&
			(len(w.Runtime.ProtocolVersions) > 0 || meta.IsStatusConditionTrue(w.Conditions, v1alpha1.ConditionBackendAnswers))
}

// Facts are what of a workload its phase is decided by.
type Facts struct {
	// Has says that it claimed the present content, Before that it claimed an earlier one
	// of this configuration and has served: there is something to go on with.
	Has, Before bool
	// InTurn says that it took what it claimed in its turn.
	InTurn bool
	// Served says that what it claimed has served once, New that nothing ever has.
	Served, New bool
	// Stopped says that it has no pods, by intent, Stalled that it has not served for longer than its progress deadline.
	Stopped, Stalled bool
	Now              Now
}

// Now is how a workload fares, by its phase.
type Now int

const (
	// Rolling is on its way to what it claimed, or about to claim, or has said nothing yet.
	Rolling Now = iota
	// Serving serves, or says nothing but what is wrong with this configuration.
	Serving
	// Troubled does not serve.
	Troubled
	// Barred cannot take any content: its spec, another reference or the API server keeps it from that.
	Barred
)

// CouldNotFollow reports whether the workload said last that it cannot follow a reference.
func (w Workload) CouldNotFollow() bool {
	return conditions.Phase(w.Stated, w.Conditions) == v1alpha1.PhaseUnresolved
}

// now is what the workload says of itself, as far as a configuration of this kind is
// concerned: it takes one as soon as that is right again.
func (w Workload) now(kind string) Now {
	switch conditions.Phase(w.Stated, w.Conditions) {
	case v1alpha1.PhaseServing, v1alpha1.PhasePending:
		return Serving
	case v1alpha1.PhaseUnresolved:
		if kind == "" || slices.ContainsFunc(w.Unfollowed, func(other string) bool { return other != kind }) {
			return Barred
		}
		return Serving
	case v1alpha1.PhaseBlocked, v1alpha1.PhaseRefused:
		if w.servesBesides() {
			return Serving
		}
		return Barred
	case v1alpha1.PhaseUnavailable, v1alpha1.PhaseFailing, v1alpha1.PhaseFaulty, v1alpha1.PhaseStopping:
		return Troubled
	case v1alpha1.PhaseStarting, v1alpha1.PhaseUpdating, v1alpha1.PhaseStopped:
	}
	return Rolling
}

// servesBesides reports whether calls are served while a rollout of other content of the backend is held or has failed,
// of a spec that is followed. No configuration contributes to that, and the proxies take each.
func (w Workload) servesBesides() bool {
	return meta.IsStatusConditionTrue(w.Conditions, v1alpha1.ConditionAccepted) &&
		meta.IsStatusConditionTrue(w.Conditions, v1alpha1.ConditionAvailable)
}

// Facts are those of the workload as one that refers to a configuration whose content has this hash.
func (w Workload) Facts(kind, name, hash string) Facts {
	claimed, has := w.claimed(kind, name)
	isNew := w.Served == 0 && w.URL == "" && !w.HasServed()
	f := Facts{
		Has: has && claimed.Hash == hash, Before: has && claimed.Hash != hash && !isNew,
		InTurn: has && (claimed.InTurn || w.Claim.ConfigRollout), Served: w.HasServed(), New: isNew,
		Stopped: w.Stopped, Now: w.now(kind),
	}
	f.Stalled = (f.Now == Rolling || f.Now == Troubled) &&
		meta.IsStatusConditionTrue(w.Conditions, v1alpha1.ConditionStalled)
	return f
}

// Member is the workload as one that refers to a configuration whose content has this hash.
func (w Workload) Member(kind, name, hash string) Member {
	return Member{Name: w.Name, Phase: w.Facts(kind, name, hash).Phase()}
}

// Pending is what a workload says of Ready while it waits for its turn in a configuration.
func Pending(kind, name string) conditions.Finding {
	return conditions.False(v1alpha1.ReasonRolloutPending, fmt.Sprintf(
		"%s %q has changed, and servers take the change in turns: calls are served with the content before until it is "+
			"this one's turn. "+
			"See the condition RolledOut of the %[1]s", kind, name))
}
