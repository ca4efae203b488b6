package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// proxyPatience is how long a server that stops waits for its proxy pods: their
// grace period of 40 seconds, and longer than that again for a slow node. Then
// it goes on without. It is counted by the process that waits, from when it
// first saw that the server stops: deletionTimestamp is by the API server's
// clock, and where that is behind ours, patience would end before it began. A
// new leader begins anew.
const proxyPatience = 90 * time.Second

// stopRetry is how often a failed stop of the proxies is tried again: more
// often than a growing backoff would, as it has to come true within patience.
const stopRetry = 5 * time.Second

// step is the next thing to do on the way out.
type step int

const (
	stopProxies step = iota
	awaitProxies
	stopBackend
	letGo
)

// next is the whole order in which a server stops, because it is deleted or
// because its spec wants no backend. Calls in flight end first: proxies go to
// zero, then no proxy pod may be left (bounded), then the backend goes, by its
// replicas or as a whole, and of a deleted server the finalizer. Who refuses the
// first two steps only delays the others.
func next(w world, since, now time.Time) step {
	patient := now.Before(since.Add(proxyPatience))
	switch {
	case patient && w.proxy != nil && w.proxy.DeletionTimestamp == nil && (w.proxy.Spec.Replicas == nil || *w.proxy.Spec.Replicas != 0):
		return stopProxies
	case w.running(workload.ComponentProxy) > 0 && patient:
		return awaitProxies
	case w.backend != nil && w.backend.DeletionTimestamp == nil && w.ownBackend:
		return stopBackend
	}
	return letGo
}

// delete is one pass over a server that is being deleted.
func (r *Reconciler) delete(ctx context.Context, server *v1alpha1.MCPServer, w world) (ctrl.Result, error) {
	// In foreground deletion the backend waits for us also without our finalizer:
	// config/policy/deletion-order.yaml.
	if !slices.Contains(server.Finalizers, contract.Finalizer) && !slices.Contains(server.Finalizers, metav1.FinalizerDeleteDependents) {
		r.going.Remove(server.UID)
		return ctrl.Result{}, nil
	}
	since, now := r.goingSince(server), r.Now()
	switch next(w, since, now) {
	case stopProxies:
		return r.stopProxies(ctx, server, w)
	case awaitProxies:
		return settle(ctx, r.reportDeleting(ctx, server, v1alpha1.ConditionReconciling, callsEnd), left(since, now))
	case stopBackend:
		if n := w.running(workload.ComponentProxy); n > 0 {
			r.event(server, corev1.EventTypeWarning, "ProxyPodsRemain", "Delete",
				fmt.Sprintf("%d proxy pods have not ended within %s; deleting the backend without them", n, proxyPatience))
		}
		return settle(ctx, r.applier.As(contract.MCPServerChildren).Remove(ctx, w.backend))
	default:
		return r.letGo(ctx, server)
	}
}

// drains is how long the backend of a server that is suspended or scaled to zero
// waits for the calls of its proxies, 0 if it does not.
func (r *Reconciler) drains(server *v1alpha1.MCPServer, w world) time.Duration {
	if backendReplicas(server) != 0 {
		r.going.Remove(server.UID)
		return 0
	}
	since, now := r.goingSince(server), r.Now()
	if next(w, since, now) >= stopBackend {
		return 0
	}
	return left(since, now)
}

// left is what remains of patience. It is for a timer, because its end is no event.
func left(since, now time.Time) time.Duration {
	return max(time.Second, since.Add(proxyPatience).Sub(now))
}

// goingSince is when this process first saw that the server stops.
func (r *Reconciler) goingSince(server *v1alpha1.MCPServer) time.Time {
	if since, ok := r.going.Get(server.UID); ok {
		if t, ok := since.(time.Time); ok {
			return t
		}
	}
	now := r.Now()
	r.going.Add(server.UID, now)
	return now
}

// finalizerPath is our finalizer in the terms of field ownership.
var finalizerPath = ownership.MustPath(`metadata.finalizers[="` + contract.Finalizer + `"]`)

// letGo gives up the finalizer. Where somebody else holds it too, as a tool
// does that restored the object with a create, giving it up does not remove
// it: that is said, because nothing more will happen by itself.
func (r *Reconciler) letGo(ctx context.Context, server *v1alpha1.MCPServer) (ctrl.Result, error) {
	if !slices.Contains(server.Finalizers, contract.Finalizer) {
		return ctrl.Result{}, nil
	}
	holders, err := ownership.Owners(server.ManagedFields, finalizerPath)
	if err != nil {
		return ctrl.Result{}, err
	}
	var others []string
	for _, h := range holders {
		if h.Manager == string(contract.MCPServerFinalizer) && h.Operation == metav1.ManagedFieldsOperationApply {
			return settle(ctx, r.applier.As(contract.MCPServerFinalizer).Release(ctx, server))
		}
		others = append(others, h.Manager)
	}
	if others == nil {
		others = []string{"nobody that the API server knows of"}
	}
	return settle(ctx, r.reportDeleting(ctx, server, v1alpha1.ConditionStalled, fmt.Sprintf(
		"proxy and backend are gone, but Freehold cannot remove the finalizer %s, which is held by %s: remove it from metadata.finalizers",
		contract.Finalizer, strings.Join(others, ", "))))
}

// callsEnd is what is said of a server while its calls end.
const callsEnd = "waiting for the proxy pods to end their calls, then for the backend"

// stopProxies scales the proxy that stands to zero, at the version that was
// read: its content is restated as it is, so it must not have moved.
func (r *Reconciler) stopProxies(ctx context.Context, server *v1alpha1.MCPServer, w world) (ctrl.Result, error) {
	proxy, err := workload.ScaledProxy(w.proxy, string(contract.MCPServerChildren), 0)
	if err != nil {
		// Not built by us, or taken from us whole: then it is not ours to stop.
		w.proxy = nil
		return r.delete(ctx, server, w)
	}
	_, err = r.applier.As(contract.MCPServerChildren).Put(ctx, w.proxy, proxy, apply.AtVersion, apply.Restated)
	if err != nil && apply.When(err) != apply.WithWatch {
		r.event(server, corev1.EventTypeWarning, "ProxyNotStopped", "Delete", err.Error())
		// A timer, because the end of patience is no event.
		return ctrl.Result{RequeueAfter: stopRetry}, nil
	}
	if err != nil {
		return settle(ctx, err)
	}
	return settle(ctx, r.reportDeleting(ctx, server, v1alpha1.ConditionReconciling, callsEnd))
}

// reportDeleting says once how far the server is on its way out, under the
// condition that fits: Reconciling, or Stalled if a person must act.
func (r *Reconciler) reportDeleting(ctx context.Context, server *v1alpha1.MCPServer, movement, message string) error {
	f := conditions.False(v1alpha1.ReasonDeleting, message)
	found := map[string]conditions.Finding{
		v1alpha1.ConditionReady: f,
		movement:                conditions.True(f.Reason, f.Message),
	}
	said, err := r.applier.As(contract.MCPServerConditions).Put(ctx, server, r.stamp(server, found))
	if err == nil && said.Result == apply.Written {
		r.announce(server, found)
	}
	return err
}
