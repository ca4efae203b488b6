package configs

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/references"
)

// Register adds the controller to a manager, whose cache must have the index of controllers/references.
func (r *Reconciler) Register(mgr ctrl.Manager, options controller.Options) error {
	name := strings.ToLower(r.row.Object.Kind)
	build := ctrl.NewControllerManagedBy(mgr).Named(name).Watches(r.kind.New(), own()).WithOptions(options).
		WithLogConstructor(r.Log(mgr, name, "config"))
	for _, kind := range kinds.All() {
		build.Watches(kind.New(), r.referrers())
	}
	return build.Complete(r)
}

// A configuration waits after the first of several changes of its referrers: each state of its status is a write, and
// one write tells of all. It does not wait as long where the finalizer is to come or to go.
const (
	burst = time.Second
	soon  = 50 * time.Millisecond
)

// own wakes a configuration that changes. Where its status alone did, as by each write of
// ours, it waits as after a referrer: a pass at once would tell of the few that came since.
func own() handler.EventHandler {
	now := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		CreateFunc: now.Create,
		DeleteFunc: now.Delete,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			was, is := e.ObjectOld, e.ObjectNew
			if was.GetGeneration() != is.GetGeneration() || !slices.Equal(was.GetFinalizers(), is.GetFinalizers()) ||
				!was.GetDeletionTimestamp().Equal(is.GetDeletionTimestamp()) {
				now.Update(ctx, e, q)
				return
			}
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(is)}, burst)
		},
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// referrers wakes the configuration that a workload refers to, and the one that it
// referred to before. The queue keeps the first of several times.
func (r *Reconciler) referrers() handler.EventHandler {
	kind := r.row.Object.Kind
	wake := func(ctx context.Context, q queue, workloads ...client.Object) {
		for _, w := range workloads {
			if name := references.From(w, kind); name != "" {
				key := types.NamespacedName{Namespace: w.GetNamespace(), Name: name}
				q.AddAfter(reconcile.Request{NamespacedName: key}, r.pause(ctx, key))
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			switch before, after := references.From(e.ObjectOld, kind), references.From(e.ObjectNew, kind); {
			case before != after:
				wake(ctx, q, e.ObjectOld, e.ObjectNew)
			case after != "" && r.affects(ctx, e.ObjectOld, e.ObjectNew):
				wake(ctx, q, e.ObjectNew)
			}
		},
	}
}

// affects reports whether what a configuration says of a server can change, which goes on to refer to it.
func (r *Reconciler) affects(ctx context.Context, before, after client.Object) bool {
	old, was := before.(kinds.Object)
	now, is := after.(kinds.Object)
	if !was || !is || (old.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil) {
		return true
	}
	if _, rollsOut := r.kind.(frame.Content); !rollsOut {
		return kinds.IsReady(old) != kinds.IsReady(now)
	}
	live, name := r.kind.New(), references.From(after, r.row.Object.Kind)
	if err := r.reader.Get(ctx, client.ObjectKey{Namespace: now.GetNamespace(), Name: name}, live,
		client.UnsafeDisableDeepCopy); err != nil {
		return false // it has a pass of its own once it is there
	}
	verdict, known := r.Store.Verdict(r.kind, live)
	if !known {
		return true
	}
	stood, had, err := r.member(ctx, name, verdict.Hash, old)
	stands, has, failed := r.member(ctx, name, verdict.Hash, now)
	return stood != stands || had != has || err != nil || failed != nil
}

func (r *Reconciler) pause(ctx context.Context, key types.NamespacedName) time.Duration {
	live := r.kind.New()
	err := r.reader.Get(ctx, key, live, client.UnsafeDisableDeepCopy)
	if err != nil || live.GetDeletionTimestamp() != nil || !slices.Contains(live.GetFinalizers(), r.row.Finalizer) {
		return soon
	}
	return burst
}
