// Package report words what a pass comes to: a plan, and what its writes came to, as conditions, Events, address and
// scale. Conditions is pure, and Write states what it finds.
package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Write says what is so: address and scale, then the conditions with the generation they speak of in one apply, because
// readers of kstatus believe an old Ready under a new generation. Conditions come last, to tell also who overwrites
// address and scale. told are the errors of the pass that it has to tell, but for that of the HTTPRoute.
func Write(
	ctx context.Context, p *reconcile.Pass, s *snapshot.Snapshot, made plan.Plan, told error, routed Routed,
) error {
	if apply.OnlyRetried(told, apply.OnEvent) != nil {
		return nil //nolint:nilerr // the next pass knows more, and what wakes it is on its way
	}
	answer, wait := ready(s, made, told)
	p.Phase = wait.Phase
	var scaled error
	scalars, held := Scalars(s, made, p.Phase)
	p.Due(held) // that no pod comes is no event
	if scalars != nil {
		_, scaled = p.Apply(ctx, s.Kind.StatusManager, s.Object, scalars)
	}
	if p.Phase == v1alpha1.PhaseServing || p.Phase == v1alpha1.PhasePending || made.Verdict.Complete {
		p.Served = max(p.Served, made.Target.Generation)
	}
	p.Due(wait.Deadline(s)) // the end of patience is no event
	found := findings(s, made, answer, wait, p.Conflicts)
	if f := Published(s, routed); f != nil {
		found[v1alpha1.ConditionPublished] = *f
	}
	if _, moving := found[v1alpha1.ConditionReconciling]; moving && !wait.GoesOn(s) {
		p.RestartTransition(v1alpha1.ConditionReconciling)
	}
	return errors.Join(scaled, p.Report(ctx, found))
}

// Conditions are the answers to all questions, by condition type. told are the errors of the pass that it has to tell,
// and conflicts are the field conflicts that it met.
func Conditions(
	s *snapshot.Snapshot, made plan.Plan, told error, conflicts []*apply.Conflict,
) map[string]conditions.Finding {
	answer, wait := ready(s, made, told)
	return findings(s, made, answer, wait, conflicts)
}

// findings are all answers; answer and wait are those of ready. What the spec asks for is reached also by a server that
// has stopped: then Ready is absent, as are Reconciling and Stalled.
func findings(
	s *snapshot.Snapshot, made plan.Plan, answer conditions.Finding, wait plan.Wait, conflicts []*apply.Conflict,
) map[string]conditions.Finding {
	found := map[string]conditions.Finding{v1alpha1.ConditionReady: answer, v1alpha1.ConditionAccepted: accepted(made)}
	for conditionType, f := range map[string]*conditions.Finding{
		v1alpha1.ConditionForeignPodContent: conditions.ForeignPodContent(s.Foreign()...),
		v1alpha1.ConditionFieldConflict:     fieldConflict(s, conflicts),
		v1alpha1.ConditionBackendExposed:    backendExposed(s),
		v1alpha1.ConditionAvailable:         available(s, made),
		v1alpha1.ConditionGroupMissing:      groupMissing(s),
	} {
		if f != nil {
			found[conditionType] = *f
		}
	}
	if len(made.Digest.Unmatched) > 0 {
		found[v1alpha1.ConditionPolicyUnmatched] = conditions.PolicyUnmatched(made.Digest.Unmatched)
	}
	switch wait.Phase {
	case v1alpha1.PhaseServing:
		if f := evicts(s); f != nil {
			found[v1alpha1.ConditionStalled] = *f
		}
	case v1alpha1.PhaseStopped:
		delete(found, v1alpha1.ConditionReady)
		found[v1alpha1.ConditionSuspended] = conditions.True(answer.Reason, answer.Message)
	default:
		condition, f := movement(s, answer, wait)
		found[condition] = f
	}
	return found
}

// movement is the condition that a server shows which is not ready: Reconciling,
// or Stalled once it went without progress for too long.
func movement(s *snapshot.Snapshot, answer conditions.Finding, wait plan.Wait) (string, conditions.Finding) {
	stalls, limit := wait.Stalls(s)
	switch {
	case stalls && limit == 0:
		return v1alpha1.ConditionStalled, conditions.True(answer.Reason, answer.Message)
	case stalls:
		return v1alpha1.ConditionStalled,
			conditions.True(answer.Reason, fmt.Sprintf("no progress for %s: %s", limit, answer.Message))
	}
	return v1alpha1.ConditionReconciling, conditions.True(answer.Reason, answer.Message)
}

// evicts is Stalled of a server that is ready, and whose pods kubelet has evicted one after another for longer than it
// may go without progress; nil for any other. Sessions and calls end each time.
func evicts(s *snapshot.Snapshot) *conditions.Finding {
	again, since := s.Complaints.Repeated(v1alpha1.ReasonEvicted)
	limit := plan.Limit(s.Object, v1alpha1.PhaseFailing)
	if again == nil || s.Now.Sub(since) < limit {
		return nil
	}
	cures := conditions.OfBackend
	if again.Component == workload.ComponentProxy {
		cures = conditions.OfProxy
	}
	f := again.Ended(cures)
	return new(conditions.True(f.Reason, fmt.Sprintf("no progress for %s: %s", limit, f.Message)))
}

// fieldConflict says who overwrites fields of this server, in the runner's words
// for the backend's objects, which are the runner's.
func fieldConflict(s *snapshot.Snapshot, conflicts []*apply.Conflict) *conditions.Finding {
	ofBackend := conditions.BackendConflict(s.Last.BackendApplied)
	if len(conflicts) == 0 {
		return ofBackend
	}
	f := conditions.FieldConflict(conflicts)
	if ofBackend != nil {
		f.Message += ". Of the backend: " + ofBackend.Message
	}
	return &f
}

// backendExposed says that others than the proxy may call the backend of a server
// whose spec asks the proxy to check calls.
func backendExposed(s *snapshot.Snapshot) *conditions.Finding {
	server, is := s.Object.(*v1alpha1.MCPServer)
	if !is || !workload.Guarded(&server.Spec) ||
		workload.BackendIngress(&server.Spec, nil) == v1alpha1.BackendIngressProxyOnly {
		return nil
	}
	return new(conditions.True(v1alpha1.ReasonBackendIngressAny, fmt.Sprintf(
		"spec.network.backendIngress is Any: whoever reaches Service %s or a backend pod calls the server without the "+
			"proxy's checks; "+
			"remove the field, and Freehold makes a NetworkPolicy that lets only the proxy connect",
		s.Active.Name(server.Name))))
}

// groupMissing says that a server belongs to a group that does not exist.
func groupMissing(s *snapshot.Snapshot) *conditions.Finding {
	if s.MissingGroup == "" {
		return nil
	}
	return new(conditions.True(v1alpha1.ReasonGroupNotFound, fmt.Sprintf(
		"MCPGroup %q does not exist in this namespace, which changes nothing for calls: create it, or remove spec.groupRef",
		s.MissingGroup)))
}

// Scalars report address and scale: those of a backend once it has a ready pod, and the address of an object without
// a backend from when it is ready for the first time. A backend that an earlier server of the name left is not
// reported. While pods come up or go down one by one the numbers wait until all have, since each step would be a write,
// while they are settling, and held is how much longer; not for one that is in trouble, which may never come. What
// falls is reported at once.
func Scalars(
	s *snapshot.Snapshot, made plan.Plan, phase v1alpha1.WorkloadPhase,
) (ac runtime.ApplyConfiguration, held time.Duration) {
	backend, status := s.Backend(), s.Object.GetProxyStatus()
	url, public := status.URL, status.PublicURL
	switch {
	case !s.Kind.Backend && url == "" && phase != v1alpha1.PhaseServing,
		s.Kind.Backend && (!backend.Ours() || url == "" && !backend.Ready):
		return nil, 0
	case url == "" || made.Accepted(): // else it is that of the content that runs
		url, public = address(s.Object), workload.PublicURL(s.Object.GetProxySpec())
	}
	shared := v1alpha1ac.ProxyWorkloadStatus().WithURL(url)
	if public != "" {
		shared.WithPublicURL(public)
	}
	if !s.Kind.Backend {
		return kinds.Status(s.Object, shared), 0
	}
	replicas, up, held := numbers(s, phase)
	scaled := v1alpha1ac.MCPServerStatus().WithReplicas(replicas).WithReadyReplicas(up).
		WithSelector(labels.SelectorFromSet(workload.Selector(kinds.Key(s.Object), s.Active.Component())).String())
	scaled.ProxyWorkloadStatusApplyConfiguration = *shared
	return v1alpha1ac.MCPServer(s.Object.GetName(), s.Object.GetNamespace()).WithStatus(scaled), held
}

// numbers are how many pods the backend has and how many are ready, as they are to be reported, and held is how much
// longer they are held back.
func numbers(s *snapshot.Snapshot, phase v1alpha1.WorkloadPhase) (replicas, up int32, held time.Duration) {
	last, backend, all := s.Last, s.Backend(), kinds.BackendReplicas(s.Object)
	replicas, up = backend.Live.Status.Replicas, backend.Live.Status.ReadyReplicas
	well := phase == v1alpha1.PhaseServing || phase == v1alpha1.PhaseUpdating
	if s.Settling > 0 && well && last.Replicas != nil && last.ReadyReplicas != nil &&
		(up > all || up < all && up >= *last.ReadyReplicas) &&
		s.FirstFailure(snapshot.Wanted{Revision: backend.Revision, Slot: s.Active, Hash: backend.Hash}) == nil {
		return *last.Replicas, *last.ReadyReplicas, s.Settling
	}
	return replicas, up, 0
}

func address(server kinds.Object) string {
	return workload.URL(workload.OwnerOf(server), server.GetProxySpec().Proxy, server.GetProxySpec().Path)
}

// RefusedPods tells what refuses pods of a server that is ready with those that it has.
func RefusedPods(p *reconcile.Pass, s *snapshot.Snapshot) {
	if t := s.Slots[s.Active]; t.Refused.News && t.Refused.Words != "" && s.Last.IsReady() {
		p.Event(corev1.EventTypeWarning, v1alpha1.ReasonPodRefused, "Scale", t.RefusedPod().Message)
	}
}

// Changes says what the target of a plan makes anew, and for which configuration.
func Changes(s *snapshot.Snapshot, made plan.Plan) string {
	replaces := "replaces the pods of the proxy"
	switch {
	case !s.Proxy().Exists() && !s.Kind.Backend:
		replaces = "creates the proxy"
	case !s.Proxy().Exists():
		replaces = "creates the proxy and its backend"
	case made.Claim.Strategy == v1alpha1.StrategySuccessive:
		replaces = "brings new content up beside what serves"
	case s.Backend().Hash != made.Digest.Backend:
		replaces = "replaces the pods of proxy and backend"
	}
	if c := made.TakesInTurn(s); c != nil {
		return fmt.Sprintf("%s, because %s %q changed", replaces, c.Kind, c.Name)
	}
	return replaces
}

// Yields tells that the server is left to another operator.
func Yields(p *reconcile.Pass, s *snapshot.Snapshot) {
	p.Event(corev1.EventTypeWarning, "OtherOperator", "Claim", fmt.Sprintf(
		"another operator claimed workload generation %d for other content of the same spec, as one of another version "+
			"does: "+
			"let only one run; this one leaves the server alone for %s", s.Last.Claimed.Generation, snapshot.LeftTo))
}

// HostAccess tells that fields which another manager set on the proxy's pods are set back.
func HostAccess(p *reconcile.Pass, fields []string) {
	p.Event(corev1.EventTypeWarning, "HostAccessRemoved", "Repair",
		fmt.Sprintf("another field manager set %s on the proxy's pods; Freehold set it back to false",
			strings.Join(fields, ", ")))
}

// RightsWithdrawn tells that the runner's rights went, since they rested on what another writer has.
func RightsWithdrawn(p *reconcile.Pass, name string) {
	p.Event(corev1.EventTypeWarning, "RightsWithdrawn", "Repair", fmt.Sprintf(
		"Freehold does not control the ServiceAccount or Role %s any more; deleted the RoleBinding, so that it grants "+
			"nothing to its new owner", name))
}

// NotKept tells that the history of the server's contents is refused, which makes it no less ready, and returns err.
func NotKept(p *reconcile.Pass, err error) error {
	if refused := apply.Refused(err); refused != nil {
		p.Event(corev1.EventTypeWarning, "HistoryNotKept", "Store", refused.Error())
	}
	return err
}

// Deleting says what a server that is being deleted waits for after an action.
func Deleting(s *snapshot.Snapshot, action plan.Action) string {
	switch action.(type) {
	case plan.OrphanChildren:
		return "its objects stay, as --cascade=orphan asks for; waiting for the garbage collector to take the " +
			s.Kind.Object.Kind + " off them"
	case plan.AwaitBackend:
		return "waiting for the backend pods to end; their NetworkPolicy stays until then"
	}
	const calls = "waiting for the proxy pods to end their calls"
	if s.Kind.Backend {
		return calls + ", then for the backend"
	}
	return calls
}

// PodsRemain tells that a deletion goes on though pods have not ended.
func PodsRemain(p *reconcile.Pass, action plan.Action) {
	switch a := action.(type) {
	case plan.DeleteBackend:
		if a.Left > 0 {
			p.Event(corev1.EventTypeWarning, "ProxyPodsRemain", "Delete",
				fmt.Sprintf("%d proxy pods have not ended within %s; deleting the backend without them", a.Left, a.After))
		}
	case plan.DeletePolicy:
		if a.Left > 0 {
			p.Event(corev1.EventTypeWarning, "BackendPodsRemain", "Delete",
				fmt.Sprintf("%d backend pods have not ended within %s; their NetworkPolicy goes without them", a.Left, a.After))
		}
	}
}

// NotStopped tells that the proxies of a server that is being deleted could not be stopped.
func NotStopped(p *reconcile.Pass, err error) {
	p.Event(corev1.EventTypeWarning, "ProxyNotStopped", "Delete", err.Error())
}
