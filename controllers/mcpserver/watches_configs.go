package mcpserver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

type followed struct {
	kind string
	types.NamespacedName
}

// waves wakes the servers whose turn it is to take a changed configuration, and no others, when some that refer to it
// have moved. Who they are is found outside of the watch, and once for all that move within gathering: it takes a look
// at all that refer to it, and where 500 do, each of them moves several times.
type waves struct {
	*Reconciler
	// moves is made at its first use: it has a goroutine, which a controller that never starts would leave behind.
	moves func() workqueue.TypedDelayingInterface[followed]
}

// gathering is how long the first server that has moved waits for others.
const gathering = 100 * time.Millisecond

func (r *Reconciler) waves() waves {
	return waves{r, sync.OnceValue(workqueue.NewTypedDelayingQueue[followed])}
}

func (v waves) handler() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, _ queue) { v.moved(ctx, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, _ queue) { v.moved(ctx, e.Object, nil) },
	}
}

// moved looks at what a server was before, and is after; nil for one that is gone.
func (v waves) moved(ctx context.Context, before, after client.Object) {
	was, is := before.(kinds.Object)
	now, _ := after.(kinds.Object)
	if !is || alike(was, now) {
		return
	}
	for _, ref := range was.ConfigRefs() {
		of := followed{ref.Kind, types.NamespacedName{Namespace: was.GetNamespace(), Name: ref.Name}}
		config, err := v.config(ctx, of)
		if err == nil && v.phase(ctx, was, config) != v.phase(ctx, now, config) {
			v.moves().AddAfter(of, gathering)
		} // one that is not there, or was not read, is taken by nobody
	}
}

// Start wakes until ctx is done those whose turn it is.
func (v waves) Start(ctx context.Context, q queue) error {
	moves := v.moves()
	context.AfterFunc(ctx, moves.ShutDown)
	go func() {
		for {
			of, shutdown := moves.Get()
			if shutdown {
				return
			}
			v.wake(ctx, of, q)
			moves.Done(of)
		}
	}()
	return nil
}

func (v waves) wake(ctx context.Context, of followed, q queue) {
	config, err := v.config(ctx, of)
	if err != nil {
		return // as in moved
	}
	plan, err := v.reader.Plan(ctx, of.Namespace, config)
	if err != nil {
		logf.FromContext(ctx).Error(err, "cannot tell which server takes a configuration next", "namespace", of.Namespace,
			"config", of.Name)
		return
	}
	for _, next := range plan.Admitted {
		if kind, name := kinds.OfKey(next); kind.Suffix == v.kind.Suffix {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: of.Namespace, Name: name}})
		}
	}
}

// alike reports whether nothing changed of what a phase is read from, as with most events.
func alike(before, after kinds.Object) bool {
	return after != nil && slices.Equal(before.ConfigRefs(), after.ConfigRefs()) &&
		apiequality.Semantic.DeepEqual(rollout.Of(before), rollout.Of(after))
}

// phase is how far a server is that refers to a configuration, -1 for one that does not, or where that cannot be told.
func (v waves) phase(ctx context.Context, server kinds.Object, config v1alpha1.WorkloadConfig) rollout.Phase {
	if server == nil || references.From(server, config.Kind) != config.Name {
		return -1
	}
	w, err := v.reader.Configs.Workload(ctx, v.reader.Cache, server)
	if err != nil {
		return -1
	}
	return w.Member(config.Kind, config.Name, config.Hash).Phase
}

// errUnknown says that a configuration is of a kind that is no content, or large, and that nobody
// has read it yet: a pass over a server that refers to it does.
var errUnknown = errors.New("nobody knows what the configuration says")

// config is a configuration as a claim would record it now.
func (r *Reconciler) config(ctx context.Context, of followed) (v1alpha1.WorkloadConfig, error) {
	kind := registry.Content(of.kind)
	if kind == nil {
		return v1alpha1.WorkloadConfig{}, errUnknown
	}
	config := kind.New()
	if err := r.reader.Cache.Get(ctx, of.NamespacedName, config, client.UnsafeDisableDeepCopy); err != nil {
		return v1alpha1.WorkloadConfig{}, err
	}
	verdict, known := r.reader.Configs.Verdict(kind, config)
	if !known {
		return v1alpha1.WorkloadConfig{}, errUnknown
	}
	return v1alpha1.WorkloadConfig{Kind: of.kind, Name: of.Name, Hash: verdict.Hash}, nil
}
