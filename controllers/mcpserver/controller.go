// Package mcpserver reconciles MCPServers: everything around the proxy is applied here, the backend by the runner in
// the proxy pod. It reconciles MCPRemoteProxies too, which have no backend (controllers/kinds).
//
// Read Reconcile first. It has three steps, each a package: snapshot has all reads, plan decides by them and by the
// digest of the content that package render makes, and act takes the plan's steps, of which the last is a report.
package mcpserver

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/act"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/render"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// Reconciler makes the objects of a kind be followed.
type Reconciler struct {
	reconcile.Core
	kind     kinds.Kind
	reader   *snapshot.Reader
	renderer *render.Renderer
	// Large is that of the process.
	Large *reconcile.LargeQueue
}

// New returns a Reconciler of the kind of reader.
func New(
	reader *snapshot.Reader, applier *apply.Applier, recorder events.EventRecorder,
	release podtemplate.Release,
) *Reconciler {
	reader.RememberedAs = applier.As(reader.Kind.ChildrenManager).RememberedAs
	return &Reconciler{
		Core: reconcile.NewCore(applier, recorder, framed(reader.Kind)), kind: reader.Kind, reader: reader,
		renderer: render.New(release), Large: &reconcile.LargeQueue{},
	}
}

// Reconcile is one pass over one object.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object, slot := r.kind.New(), r.Large.Of(req.Namespace, r.kind.Object.Kind+" "+req.Name)
	defer slot.Leave()
	wait, err := slot.Read(ctx, r.reader.Cache, r.reader.Live, req.NamespacedName, object, r.Now())
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err != nil {
		return ctrl.Result{}, r.gone(ctx, req.NamespacedName, err)
	}
	status := object.GetProxyStatus()
	p, wait, err := r.Begin(ctx, object, status.Conditions)
	if p == nil {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	p.RefusalTimeout, p.Served = plan.Limit(object, v1alpha1.PhaseRefused), status.ServedGeneration
	s, err := r.reader.Read(ctx, object, r.Now(), slot)
	if err != nil {
		return p.End(ctx, err)
	}
	s, made, err := r.decide(ctx, s, slot)
	if err == nil && made.Settles {
		if s, err = r.reader.Anew(ctx, s, slot); err == nil {
			s, made, err = r.decide(ctx, s, slot)
		}
	}
	if err != nil {
		return p.End(ctx, err)
	}
	return p.End(ctx, r.execute(ctx, p, s, made))
}

// decide decides by a snapshot; with the contents of the configurations, which may be newer than what the cache shows,
// where those are needed.
func (r *Reconciler) decide(
	ctx context.Context, s *snapshot.Snapshot, slot *reconcile.LargeSlot,
) (*snapshot.Snapshot, plan.Plan, error) {
	digests, known := r.renderer.Digests(s)
	made := plan.Make(s, digests, r.renderer.Release)
	if s.Configs.Refs.Whole() || known && !made.Renders() {
		return s, made, nil
	}
	s, err := r.reader.Contents(ctx, s, slot)
	if err != nil {
		return nil, plan.Plan{}, err
	}
	digests, _ = r.renderer.Digests(s) // known, as all is there
	return s, plan.Make(s, digests, r.renderer.Release), nil
}

func (r *Reconciler) execute(ctx context.Context, p *reconcile.Pass, s *snapshot.Snapshot, made plan.Plan) error {
	actor := act.Actor{Applier: r.Applier, Reader: r.reader, Renderer: r.renderer}
	return actor.Execute(ctx, p, s, made)
}

func (r *Reconciler) gone(ctx context.Context, key client.ObjectKey, err error) error {
	if !apierrors.IsNotFound(err) {
		return r.Gone(key, err)
	}
	leftover, unread := r.reader.Leftover(ctx, key)
	if leftover != nil {
		unread = r.Applier.As(r.kind.ChildrenManager).Remove(ctx, leftover)
	}
	return errors.Join(unread, r.Gone(key, err))
}

func framed(kind kinds.Kind) reconcile.Kind {
	return reconcile.Kind{
		GroupVersionKind:  kind.Object.GroupVersionKind,
		Finalizer:         kind.Finalizer,
		FinalizerManager:  kind.FinalizerManager,
		ConditionsManager: kind.ConditionsManager,
		Conditions:        kind.Conditions,
		NormalReasons: []string{
			v1alpha1.ReasonReady, v1alpha1.ReasonUpdating, v1alpha1.ReasonRolloutPending,
			v1alpha1.ReasonSuspended, v1alpha1.ReasonScaledToZero,
		},
		// That it starts is no news, the Event of the claim tells that it is updated; a turn, RolledOut of the configuration.
		SilentReasons: []string{v1alpha1.ReasonStarting, v1alpha1.ReasonUpdating, v1alpha1.ReasonRolloutPending},
		// One Event tells a change of what serves, one the creation, and trouble has its own.
		SilentRecoveries: []v1alpha1.WorkloadPhase{v1alpha1.PhaseUpdating, v1alpha1.PhasePending},
		Managers:         managers(kind),
	}
}

// managers are all that write an object of the kind.
func managers(kind kinds.Kind) []ownership.Manager {
	all := []ownership.Manager{kind.FinalizerManager, kind.WorkloadManager, kind.ConditionsManager, kind.StatusManager}
	if kind.Backend {
		all = append(all, kind.PlanManager)
	}
	return all
}
