package mcpserver

import (
	"context"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Register adds the controller to a manager. The manager's cache must hold the kinds of Watched, by the label of
// workload.LabelServer, and have the indexes of controllers/references.
func (r *Reconciler) Register(mgr ctrl.Manager, options controller.Options) error {
	// Also one that was deleted and made again while the watch was down.
	changed := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}})
	name := strings.ToLower(r.kind.Object.Kind)
	build := ctrl.NewControllerManagedBy(mgr).Named(name).For(r.kind.New()).WithOptions(options).
		WithLogConstructor(r.Log(mgr, name, "server"))
	for _, child := range Watched() {
		build.Watches(child, r.children(), builder.WithPredicates(podMoved))
	}
	waves := r.waves()
	for _, kind := range kinds.All() { // a turn passes from one kind to the other
		build.Watches(kind.New(), waves.handler())
	}
	for _, kind := range registry.All() {
		build.Watches(kind.New(), r.referring(kind.Row().Object.Kind), changed)
	}
	return build.
		WatchesRawSource(source.Func(waves.Start)).
		WatchesRawSource(source.Func(r.listen)).
		Complete(r)
}

func (r *Reconciler) referring(config string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		servers, err := references.To(ctx, r.reader.Cache, config, obj.GetNamespace(), obj.GetName())
		if err != nil {
			logf.FromContext(ctx).Error(err, "cannot list the servers that refer to a configuration", "namespace",
				obj.GetNamespace(), "config", obj.GetName())
			return nil
		}
		requests := make([]reconcile.Request, 0, len(servers))
		for i := range servers {
			if kinds.Of(servers[i]).Suffix == r.kind.Suffix {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(servers[i])})
			}
		}
		return requests
	})
}

// Watched are the kinds of objects that belong to a server. Of run configs and of the history of contents only
// the metadata are watched: what they hold is large, follows from their name and cannot change.
func Watched() []client.Object {
	config, content := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}
	config.SetGroupVersionKind(contract.ConfigMap.GroupVersionKind)
	content.SetGroupVersionKind(contract.ControllerRevision.GroupVersionKind)
	return []client.Object{
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, config, content, &corev1.Service{},
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &corev1.Pod{}, &networkingv1.NetworkPolicy{},
	}
}

// podMoved leaves out an event of a pod that changes nothing of what the cache keeps of it. Of other objects each event
// counts: a write at the version that was read waits for the newer one.
var podMoved = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, was := e.ObjectOld.(*corev1.Pod)
	after, is := e.ObjectNew.(*corev1.Pod)
	if !was || !is {
		return true
	}
	same := *before
	same.ResourceVersion = after.ResourceVersion
	return !apiequality.Semantic.DeepEqual(&same, after)
}}

// wakeOwner wakes the server with a key, if it is of our kind.
func (r *Reconciler) wakeOwner(q queue, namespace, key string, after time.Duration) {
	if name, suffix := kinds.SplitKey(key); name != "" && suffix == r.kind.Suffix {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}, after)
	}
}

// children wakes the server that an object belongs to, or belonged to, by label: also of a pod, which the server does
// not own itself. The first of several events waits for the others, since a rollout is many of them; what there is when
// the process starts is no news.
func (r *Reconciler) children() handler.EventHandler {
	wake := func(q queue, after time.Duration, objects ...client.Object) {
		for _, obj := range objects {
			r.wakeOwner(q, obj.GetNamespace(), obj.GetLabels()[workload.LabelServer], after)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			after := gathering
			if e.IsInInitialList {
				after = 0
			}
			wake(q, after, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { wake(q, gathering, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, gathering, e.Object) },
	}
}

// listen wakes the object of whose pods something is said, or whose HTTPRoute has changed.
func (r *Reconciler) listen(_ context.Context, q queue) error {
	if r.reader.Complaints != nil {
		r.reader.Complaints.OnNews(func(namespace, key string) { r.wakeOwner(q, namespace, key, 0) })
	}
	r.reader.Routes.OnNews(func(namespace, key string) { r.wakeOwner(q, namespace, key, gathering) })
	return nil
}
