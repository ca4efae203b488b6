// Package configs keeps the status of shared configurations, and holds their deletion while workloads refer to them. It
// is one controller for all kinds of configurations; what tells them apart is in a package each, which registry lists.
//
// Read Reconcile first. What a pass shares with those of other kinds is in
// controllers/reconcile, who refers to what in controllers/references.
package configs

import (
	"context"
	"errors"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/store"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// Reconciler keeps the status of the configurations of one kind.
type Reconciler struct {
	reconcile.Core
	// Percent is how many of a hundred servers take a changed configuration at a time.
	Percent int
	// Large and Store are those of the process.
	Large  *reconcile.LargeQueue
	Store  *store.Store
	kind   frame.Kind
	row    contract.Config
	reader client.Reader // the cache
	live   client.Reader // the API server, for what the cache does not hold whole
}

// New returns a Reconciler of a kind. reader may be a cache, live may not.
func New(
	kind frame.Kind, reader, live client.Reader, applier *apply.Applier, recorder events.EventRecorder,
) *Reconciler {
	row := kind.Row()
	return &Reconciler{
		Core: reconcile.NewCore(applier, recorder, reconcile.Kind{
			GroupVersionKind: row.Object.GroupVersionKind,
			Finalizer:        row.Finalizer, FinalizerManager: row.FinalizerManager,
			ConditionsManager: row.ConditionsManager, Conditions: row.Conditions,
			NormalReasons: []string{v1alpha1.ReasonValid},
			Managers:      []ownership.Manager{row.FinalizerManager, row.ConditionsManager, row.StatusManager},
		}),
		Percent: rollout.DefaultPercent, kind: kind, row: row, reader: reader, live: live,
		Large: &reconcile.LargeQueue{}, Store: store.New(),
	}
}

// Reconcile is one pass over one configuration.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object, slot := r.kind.New(), r.Large.Of(req.Namespace, r.row.Object.Kind+" "+req.Name)
	defer slot.Leave()
	wait, err := slot.Read(ctx, r.reader, r.live, req.NamespacedName, object, r.Now())
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err != nil {
		return ctrl.Result{}, r.Gone(req.NamespacedName, err)
	}
	p, wait, err := r.Begin(ctx, object, object.GetConfigStatus().Conditions)
	if p == nil {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	workloads, err := r.observe(ctx, object)
	if err != nil {
		return p.End(ctx, err)
	}
	if object.GetDeletionTimestamp() != nil {
		return p.End(ctx, r.delete(ctx, p, object, workloads))
	}
	return p.End(ctx, r.run(ctx, p, object, workloads))
}

// run decides and writes. The finalizer comes first: a configuration that says who refers to it is held.
func (r *Reconciler) run(ctx context.Context, p *reconcile.Pass, config frame.Object, workloads []kinds.Object) error {
	on, refused := p.SyncFinalizer(ctx, len(workloads) > 0)
	if !on {
		return refused
	}
	verdict := r.verdict(config)
	counted := r.count(ctx, p, config, verdict, workloads)
	members, err := r.members(ctx, config.GetName(), verdict.Hash, workloads)
	if err != nil {
		return errors.Join(refused, counted, err)
	}
	return errors.Join(refused, counted, p.Report(ctx, findings(r.kind, verdict, members, r.Percent, p.Conflicts)))
}

func (r *Reconciler) verdict(config frame.Object) frame.Verdict {
	verdict, _ := r.Store.Verdict(r.kind, config) // of a whole one it is always known
	return verdict
}
