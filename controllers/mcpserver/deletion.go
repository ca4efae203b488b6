package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// slowNode is how much longer than the grace period of its proxy pods a server that
// stops waits for them. Then it goes on without. It is counted by the process that waits, from when it
// first saw that the server stops: deletionTimestamp is by the API server's
// clock, and where that is behind ours, patience would end before it began. A
// new leader begins anew.
const slowNode = 50 * time.Second

// patience is how long a server that stops waits for its proxy pods: for the grace
// period of the Deployment that stands, whose pods are the newest, or else the default.
func (w *world) patience() time.Duration {
	grace := int64(runconfig.DefaultGrace)
	if w.proxy != nil {
		grace = ptr.Deref(w.proxy.Spec.Template.Spec.TerminationGracePeriodSeconds, grace)
	}
	return time.Duration(grace)*time.Second + slowNode
}

// backendPatience is how long a deleted server waits for its backend pods once the
// backend is deleted: for the longest grace period of those that are left.
func (w *world) backendPatience() time.Duration {
	var grace int64
	for i := range w.pods {
		p := &w.pods[i]
		if p.Labels[workload.LabelComponent] == workload.ComponentBackend && !hasEnded(p) {
			grace = max(grace, ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 0))
		}
	}
	return time.Duration(grace)*time.Second + slowNode
}

// stopRetry is how often a failed stop of the proxies is tried again: more
// often than a growing backoff would, as it has to come true within patience.
const stopRetry = 5 * time.Second

// step is the next thing to do on the way out.
type step int

const (
	stopProxies step = iota
	awaitProxies
	deleteBackend
	awaitBackend
	deletePolicy
	removeFinalizer
)

// next is the whole order in which a server stops, because it is deleted or
// because its spec wants no backend. Calls in flight end first: proxies go to
// zero, then no proxy pod may be left (bounded), then the backend goes, by its
// replicas or as a whole, and of a deleted server the finalizer. Where a NetworkPolicy
// stands before the backend, its pods end first, since until then they answer whoever
// reaches them; then the policy goes, which config/policy/deletion-order.yaml keeps from
// the garbage collector. Who refuses the first two steps only delays the others.
func next(w world, since, now time.Time) step {
	patient := now.Before(since.Add(w.patience()))
	switch {
	case patient && w.proxy != nil && w.proxy.DeletionTimestamp == nil && ptr.Deref(w.proxy.Spec.Replicas, 1) != 0:
		return stopProxies
	case w.running(workload.ComponentProxy) > 0 && patient:
		return awaitProxies
	case w.backend != nil && w.backend.DeletionTimestamp == nil && w.ownBackend:
		return deleteBackend
	case w.ownPolicy && w.running(workload.ComponentBackend) > 0 && (w.backend == nil || w.backend.DeletionTimestamp != nil):
		return awaitBackend
	case w.ownPolicy:
		return deletePolicy
	}
	return removeFinalizer
}

// delete is one pass over a server that is being deleted.
func (r *Reconciler) delete(ctx context.Context, p *pass, w world) error {
	server := p.server
	// In foreground deletion the backend waits for us also without our finalizer:
	// config/policy/deletion-order.yaml.
	if !p.Held() && !slices.Contains(server.Finalizers, metav1.FinalizerDeleteDependents) {
		return nil
	}
	if slices.Contains(server.Finalizers, metav1.FinalizerOrphanDependents) {
		return p.ReportDeleting(ctx, v1alpha1.ConditionReconciling,
			"its objects stay, as --cascade=orphan asks for; waiting for the garbage collector to take the "+r.kind.Object.Kind+" off them")
	}
	w.leave(server)
	since, now := r.goingSince(deletion{server.UID}), r.Now()
	switch next(w, since, now) {
	case stopProxies:
		return r.stopProxies(ctx, p, w)
	case awaitProxies:
		p.Due(left(w, since, now))
		return p.ReportDeleting(ctx, v1alpha1.ConditionReconciling, callsEnd(p.server))
	case deleteBackend:
		if n := w.running(workload.ComponentProxy); n > 0 {
			p.Event(corev1.EventTypeWarning, "ProxyPodsRemain", "Delete",
				fmt.Sprintf("%d proxy pods have not ended within %s; deleting the backend without them", n, w.patience()))
		}
		return p.TellRefused(ctx, p.Remove(ctx, r.kind.ChildrenManager, w.backend))
	case awaitBackend:
		return r.awaitBackend(ctx, p, w)
	case deletePolicy:
		return r.deletePolicy(ctx, p, w)
	default:
		return p.RemoveFinalizer(ctx)
	}
}

// leave takes the proxy out of what is seen if the server does not control it any more: it
// was orphaned, and its pods go on.
func (w *world) leave(server *v1alpha1.MCPServer) {
	if w.proxy == nil || metav1.IsControlledBy(w.proxy, server) {
		return
	}
	w.proxy = nil
	w.pods = slices.DeleteFunc(w.pods, func(p corev1.Pod) bool { return p.Labels[workload.LabelComponent] == workload.ComponentProxy })
}

// drains is how long the backend of a server that is suspended or scaled to zero
// waits for the calls of its proxies, 0 if it does not.
func (r *Reconciler) drains(server *v1alpha1.MCPServer, w world) time.Duration {
	if backendReplicas(server) != 0 {
		r.going.Remove(server.UID)
		return 0
	}
	since, now := r.goingSince(server.UID), r.Now()
	if next(w, since, now) >= deleteBackend {
		return 0
	}
	return left(w, since, now)
}

// left is what remains of patience. It is for a timer, because its end is no event.
func left(w world, since, now time.Time) time.Duration {
	return max(time.Second, since.Add(w.patience()).Sub(now))
}

// A server in the list of what stops has its uid, where it is suspended or scaled to
// zero. Its deletion, and the end of its backend then, are waited for anew.
type (
	deletion   struct{ server types.UID }
	itsBackend struct{ server types.UID }
)

// awaitBackend keeps the NetworkPolicy while backend pods end, for as long as their
// patience lasts.
func (r *Reconciler) awaitBackend(ctx context.Context, p *pass, w world) error {
	since, now, patience := r.goingSince(itsBackend{p.server.UID}), r.Now(), w.backendPatience()
	if wait := since.Add(patience).Sub(now); wait > 0 {
		p.Due(max(time.Second, wait))
		return p.ReportDeleting(ctx, v1alpha1.ConditionReconciling, "waiting for the backend pods to end; their NetworkPolicy stays until then")
	}
	p.Event(corev1.EventTypeWarning, "BackendPodsRemain", "Delete",
		fmt.Sprintf("%d backend pods have not ended within %s; their NetworkPolicy goes without them", w.running(workload.ComponentBackend), patience))
	return r.deletePolicy(ctx, p, w)
}

// deletePolicy deletes the backend's NetworkPolicy, and then lets the server go.
func (r *Reconciler) deletePolicy(ctx context.Context, p *pass, w world) error {
	if err := p.Remove(ctx, r.kind.ChildrenManager, w.policy); err != nil {
		return p.TellRefused(ctx, err)
	}
	return p.RemoveFinalizer(ctx)
}

// removeLeftPolicy deletes the NetworkPolicy of an earlier server of this name, whose
// finalizer somebody removed: the garbage collector is refused it. It reports whether it
// did. uid is that of the server that is there now, empty if there is none: then the pods
// of the backend end first.
func (r *Reconciler) removeLeftPolicy(ctx context.Context, server client.ObjectKey, uid types.UID) (bool, error) {
	policy := &networkingv1.NetworkPolicy{}
	key := client.ObjectKey{Namespace: server.Namespace, Name: workload.BackendName(server.Name)}
	switch err := reconcile.Whole(ctx, r.reader, r.live, key, policy); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading NetworkPolicy %s: %w", key, err)
	}
	owner := metav1.GetControllerOf(policy)
	ours := owner != nil && strings.HasPrefix(owner.APIVersion, v1alpha1.SchemeGroupVersion.Group+"/") && owner.Kind == r.kind.Object.Kind && owner.Name == server.Name
	if !ours || owner.UID == uid || policy.DeletionTimestamp != nil {
		return false, nil
	}
	now := r.kind.New()
	switch err := r.live.Get(ctx, server, now); { // the cache may be behind
	case err == nil && now.GetUID() == owner.UID:
		return false, nil
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("reading %s %s: %w", owner.Kind, server, err)
	case err == nil:
		// Its own policy, if it has one, is about the same pods.
	default:
		w, gone := world{}, kinds.Form(now)
		gone.Namespace, gone.Name = server.Namespace, server.Name
		if err := w.list(ctx, r.reader, gone); err != nil || w.running(workload.ComponentBackend) > 0 {
			return false, err // the end of a pod wakes the next pass
		}
	}
	return true, r.Applier.As(r.kind.ChildrenManager).Remove(ctx, policy)
}

// goingSince is when this process first saw that a server, by uid, or its backend stops.
func (r *Reconciler) goingSince(what any) time.Time {
	seen, _ := r.going.Get(what)
	if since, ok := seen.(time.Time); ok {
		return since
	}
	now := r.Now()
	r.going.Add(what, now)
	return now
}

// callsEnd is what is said of a server while its calls end.
func callsEnd(server *v1alpha1.MCPServer) string {
	const calls = "waiting for the proxy pods to end their calls"
	if kinds.Of(server).Backend {
		return calls + ", then for the backend"
	}
	return calls
}

// stopProxies scales the proxy that stands to zero, at the version that was
// read: its content is restated as it is, so it must not have moved.
func (r *Reconciler) stopProxies(ctx context.Context, p *pass, w world) error {
	proxy, err := workload.ScaledProxy(w.proxy, workload.OwnerWith(p.server, r.options.Objects), string(r.kind.ChildrenManager), 0)
	if err != nil {
		// Not built by us, or taken from us whole: then it is not ours to stop.
		w.proxy = nil
		return r.delete(ctx, p, w)
	}
	_, err = p.Apply(ctx, r.kind.ChildrenManager, w.proxy, proxy, apply.AtVersion, apply.Restated)
	if err != nil && apply.When(err) != apply.WithWatch {
		p.Event(corev1.EventTypeWarning, "ProxyNotStopped", "Delete", err.Error())
		// A timer, because the end of patience is no event.
		p.Due(stopRetry)
		return nil
	}
	if err != nil {
		return err
	}
	return p.ReportDeleting(ctx, v1alpha1.ConditionReconciling, callsEnd(p.server))
}
