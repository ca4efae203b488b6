package mcpserver

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// report says what is so: address and scale, then the conditions with the
// generation they speak of in one apply, because readers of kstatus believe an
// old Ready under a new generation. Conditions come last, to tell also who
// overwrites address and scale.
func (r *Reconciler) report(ctx context.Context, p *pass, w world, want wanted, applied error) error {
	if apply.Only(applied, apply.WithWatch) != nil {
		return nil //nolint:nilerr // the next pass knows more, and what wakes it is on its way
	}
	server := p.server
	answer := ready(server, w, want, applied)
	var scaled error
	scalars, held := scalarStatus(server, w, want, answer, r.settling(server, w))
	p.Due(held) // that no pod comes is no event
	if scalars != nil {
		_, scaled = p.Apply(ctx, r.kind.StatusManager, p.object, scalars)
	}
	if serves(answer.Reason) || complete(server, w, want) {
		p.Served = max(p.Served, want.revision.Generation)
	}
	w.conflicts = p.Conflicts
	found := findings(server, w, want, answer, r.Now())
	// Reconciling begins anew with each wait.
	if f, moving := found[v1alpha1.ConditionReconciling]; moving && standing(server, v1alpha1.ConditionReconciling, patience(server, f.Reason)) == nil {
		p.Anew(v1alpha1.ConditionReconciling)
	}
	return errors.Join(scaled, p.Report(ctx, found))
}

// findings are the answers to all questions, by condition type. answer is that
// of ready. What the spec asks for is reached also by a server that has stopped:
// then Ready is absent, as are Reconciling and Stalled.
func findings(server *v1alpha1.MCPServer, w world, want wanted, answer conditions.Finding, now time.Time) map[string]conditions.Finding {
	found := map[string]conditions.Finding{
		v1alpha1.ConditionReady:    answer,
		v1alpha1.ConditionAccepted: accepted(server, want),
	}
	if f := foreignPodContent(server, w); f != nil {
		found[v1alpha1.ConditionForeignPodContent] = *f
	}
	if f := fieldConflict(server, w); f != nil {
		found[v1alpha1.ConditionFieldConflict] = *f
	}
	if f := backendExposed(server); f != nil {
		found[v1alpha1.ConditionBackendExposed] = *f
	}
	if len(want.unmatched) > 0 {
		found[v1alpha1.ConditionPolicyUnmatched] = conditions.PolicyUnmatched(want.unmatched)
	}
	switch {
	case answer.Status == metav1.ConditionTrue:
		if f := evicts(server, w, now); f != nil {
			found[v1alpha1.ConditionStalled] = *f
		}
	case halts(answer.Reason) && want.claimed(server) && w.stopped(server):
		delete(found, v1alpha1.ConditionReady)
		found[v1alpha1.ConditionSuspended] = conditions.True(answer.Reason, answer.Message)
	default:
		condition, f := movement(server, w, answer, now)
		found[condition] = f
	}
	return found
}

// scalarStatus reports address and scale. They are first stated once the
// backend has a ready pod, and while pods come up or go down one by one they
// wait until all have, since each step would be a write, while their numbers are
// settling, and held is how much longer; not for one that is in trouble, which may
// never come. What falls is reported at once. A backend that an earlier server of the
// name left is not reported.
func scalarStatus(server *v1alpha1.MCPServer, w world, want wanted, ready conditions.Finding, settling time.Duration) (ac *v1alpha1ac.MCPServerApplyConfiguration, held time.Duration) {
	s := server.Status
	if !kinds.Of(server).Backend {
		return addressOnly(server, want, ready), 0
	}
	if !w.ownBackend || (s.URL == "" && w.backend.Status.ReadyReplicas == 0) {
		return nil, 0
	}
	replicas, up, all := w.backend.Status.Replicas, w.backend.Status.ReadyReplicas, backendReplicas(server)
	well := ready.Status == metav1.ConditionTrue || ready.Reason == v1alpha1.ReasonUpdating
	if settling > 0 && well && trouble(w, readable(w.backend.Annotations), backendHash(w.backend)) == nil && s.Replicas != nil && s.ReadyReplicas != nil && (up > all || up < all && up >= *s.ReadyReplicas) {
		replicas, up, held = *s.Replicas, *s.ReadyReplicas, settling
	}
	return stated(server, v1alpha1ac.MCPServerStatus().
		WithURL(runningAt(server, want)).
		WithReplicas(replicas).
		WithReadyReplicas(up).
		WithSelector(labels.SelectorFromSet(workload.Selector(kinds.Key(server), workload.ComponentBackend)).String())), held
}

// settles is how long the numbers of a backend's pods stay as they are before they are
// taken for those that last.
const settles = time.Minute

// numbers are those of a backend's pods, and since when this process sees them.
type numbers struct {
	replicas, ready int32
	since           time.Time
}

// settling is how much longer the numbers of a backend's pods may be on their way, 0 if
// they are those that are reported, or have stayed for long, or if none are reported.
func (r *Reconciler) settling(server *v1alpha1.MCPServer, w world) time.Duration {
	s := server.Status
	if !w.ownBackend || s.Replicas == nil || s.ReadyReplicas == nil ||
		*s.Replicas == w.backend.Status.Replicas && *s.ReadyReplicas == w.backend.Status.ReadyReplicas {
		r.numbers.Remove(server.UID)
		return 0
	}
	known, _ := r.numbers.Get(server.UID)
	last, _ := known.(numbers)
	if now := (numbers{w.backend.Status.Replicas, w.backend.Status.ReadyReplicas, last.since}); now != last || last.since.IsZero() {
		now.since = r.Now()
		r.numbers.Add(server.UID, now)
		last = now
	}
	return max(0, last.since.Add(settles).Sub(r.Now()))
}

// addressOnly is scalarStatus of an object without a backend, from when it is ready
// for the first time.
func addressOnly(server *v1alpha1.MCPServer, want wanted, ready conditions.Finding) *v1alpha1ac.MCPServerApplyConfiguration {
	if server.Status.URL == "" && ready.Status != metav1.ConditionTrue {
		return nil
	}
	return stated(server, v1alpha1ac.MCPServerStatus().WithURL(runningAt(server, want)))
}

// runningAt is the address of the content that runs.
func runningAt(server *v1alpha1.MCPServer, want wanted) string {
	if server.Status.URL != "" && !want.renderable() {
		return server.Status.URL
	}
	return address(server)
}

// address is where calls of the server go.
func address(server *v1alpha1.MCPServer) string {
	return workload.URL(workload.OwnerOf(server), server.Spec.Proxy, server.Spec.Path)
}

// fieldConflict says who overwrites fields of this server, in the runner's words
// for the backend's objects, which are the runner's.
func fieldConflict(server *v1alpha1.MCPServer, w world) *conditions.Finding {
	told := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionBackendApplied)
	ofBackend := told != nil && told.Reason == v1alpha1.ReasonFieldConflict
	switch {
	case len(w.conflicts) > 0:
		f := conditions.FieldConflict(w.conflicts)
		if ofBackend {
			f.Message += ". Of the backend: " + told.Message
		}
		return &f
	case ofBackend:
		return new(conditions.True(v1alpha1.ReasonFieldConflict, told.Message))
	}
	return nil
}
