package mcpserver

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// mountEventsByPod indexes kubelet's events by the pod they are about. It is
// the name of the API server's own field selector, so that a reader without an
// index understands it too.
const mountEventsByPod = "involvedObject.name"

// Register adds the controller to a manager. The manager's cache must hold the
// kinds of Watched, by the label of workload.LabelServer, and FailedMount
// events.
func (r *Reconciler) Register(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	index := func(obj client.Object) []string {
		if e, ok := obj.(*corev1.Event); ok {
			return []string{e.InvolvedObject.Name}
		}
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Event{}, mountEventsByPod, index); err != nil {
		return err
	}
	build := ctrl.NewControllerManagedBy(mgr).Named("mcpserver").For(&v1alpha1.MCPServer{}).WithOptions(options)
	for _, kind := range Watched() {
		build.Watches(kind, handler.EnqueueRequestsFromMapFunc(server))
	}
	return build.
		Watches(&corev1.Event{}, handler.EnqueueRequestsFromMapFunc(r.serverOfPod)).
		Complete(r)
}

// Watched are the kinds of objects that belong to a server. Of run configs only
// the metadata are watched: what they hold is large, follows from their name and
// cannot change.
func Watched() []client.Object {
	config := &metav1.PartialObjectMetadata{}
	config.SetGroupVersionKind(contract.ConfigMap.GroupVersionKind)
	return []client.Object{
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, config, &corev1.Service{},
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &corev1.Pod{},
	}
}

// server is the server that an object belongs to, by label: also of a pod,
// which the server does not own itself. What belongs to another kind is left out.
func server(_ context.Context, obj client.Object) []reconcile.Request {
	name, kind := workload.NameOf(obj.GetLabels()[workload.LabelServer])
	if name == "" || kind != "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// serverOfPod is the server of the pod that an event is about.
func (r *Reconciler) serverOfPod(ctx context.Context, obj client.Object) []reconcile.Request {
	e, ok := obj.(*corev1.Event)
	if !ok || e.InvolvedObject.Kind != "Pod" {
		return nil
	}
	pod := &corev1.Pod{}
	if err := r.reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.InvolvedObject.Name}, pod); err != nil {
		return nil // not a pod of ours
	}
	return server(ctx, pod)
}

// foreignPodContent names containers and volumes in our pod templates that
// none of our managers states, sorted.
func foreignPodContent(w world) []string {
	var names []string
	if w.proxy != nil {
		names = append(names, conditions.ForeignContent("proxy", w.proxy.ManagedFields, contract.MCPServerChildren, w.proxy.Spec.Template.Spec)...)
	}
	if w.backend != nil {
		names = append(names, conditions.ForeignContent("backend", w.backend.ManagedFields, contract.RunnerBackend, w.backend.Spec.Template.Spec)...)
	}
	slices.Sort(names)
	return names
}

// announce tells who watches events what Ready has become, or that the server
// has stopped.
func (r *Reconciler) announce(server *v1alpha1.MCPServer, found map[string]conditions.Finding) {
	condition := v1alpha1.ConditionReady
	f, runs := found[condition]
	if !runs {
		condition = v1alpha1.ConditionSuspended
		f = found[condition]
	}
	if c := meta.FindStatusCondition(server.Status.Conditions, condition); c != nil && c.Reason == f.Reason && c.Message == f.Message {
		return
	}
	kind := corev1.EventTypeNormal
	if trouble := !slices.Contains(calm, f.Reason); trouble {
		kind = corev1.EventTypeWarning
	}
	text := f.Message
	if text == "" {
		text = "calls reach the content of the spec"
	}
	r.event(server, kind, f.Reason, "Reconcile", text)
}

// calm are the reasons that nobody needs to act on.
var calm = []string{
	v1alpha1.ReasonReady, v1alpha1.ReasonStarting, v1alpha1.ReasonUpdating, v1alpha1.ReasonSuspended,
	v1alpha1.ReasonScaledToZero, v1alpha1.ReasonDeleting,
}

func (r *Reconciler) event(server *v1alpha1.MCPServer, kind, reason, action, note string) {
	// The API refuses notes of more than 1 kB, and a byte of a container's last
	// words that is no text becomes three.
	note = strings.ToValidUTF8(note, "\uFFFD")
	if len(note) > 1000 {
		note = strings.ToValidUTF8(note[:1000], "") // without half a character
	}
	r.events.Eventf(server, nil, kind, reason, action, "%s", note)
}
