// Package reconcile is the part of a reconcile that all controllers share. A controller reads and decides; a Pass
// writes as a field manager, records Events, reports conditions, and ends with what the queue understands. Read
// Core.Begin, Pass.Apply, Pass.Report and Pass.End first.
package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// Kind describes a kind of object to the passes over it.
type Kind struct {
	schema.GroupVersionKind
	// Finalizer holds an object until its deletion is complete, and FinalizerManager states it; empty where nothing is
	// held.
	Finalizer        string
	FinalizerManager ownership.Manager
	// ConditionsManager states the conditions, of these types and in this order.
	ConditionsManager ownership.Manager
	Conditions        []string
	// NormalReasons of Ready and Suspended need no action: their Events are Normal. SilentReasons of Ready get no Event,
	// because another one announced what began; nor does a Ready that becomes True after a phase of SilentRecoveries.
	NormalReasons, SilentReasons []string
	SilentRecoveries             []v1alpha1.WorkloadPhase
	// Managers are all that write the object itself.
	Managers []ownership.Manager
}

// Core is what the passes over objects of one kind share.
type Core struct {
	Applier *apply.Applier
	Events  events.EventRecorder
	// Now is the applier's clock. It may differ from those of other machines.
	Now  func() time.Time
	Kind Kind
	// messageChanged is when the message of a condition was last replaced, lastRefused the last refusal, by the object's
	// uid.
	messageChanged, lastRefused *lru.Cache
	// schemaChecked is the last generation whose spec had no unknown field, by the object's uid.
	schemaChecked *lru.Cache
	contended     *contended
}

// coreCacheSize bounds each cache. A forgotten message or refusal costs a write.
const coreCacheSize = 1 << 14

// NewCore returns a Core whose clock is the applier's.
func NewCore(applier *apply.Applier, recorder events.EventRecorder, kind Kind) Core {
	core := Core{
		Applier: applier, Events: recorder, Now: applier.Now, Kind: kind,
		messageChanged: lru.New(coreCacheSize), lastRefused: lru.New(coreCacheSize), schemaChecked: lru.New(coreCacheSize),
		contended: &contended{fields: map[types.NamespacedName]int{}},
	}
	applier.OnRestore(core.schemaChecked.Clear)
	return core
}

// Pass is one reconcile of one object.
type Pass struct {
	core *Core
	// object is as it was read, with these conditions in its status.
	object     client.Object
	conditions []metav1.Condition
	// RefusalTimeout is how long the deletion of the object may be refused before it is Stalled; ProgressDeadline unless
	// set.
	RefusalTimeout time.Duration
	// Served and Phase are reported as status.servedGeneration, 0 for none, and status.phase; Before is the phase that
	// was reported.
	Served        int64
	Phase, Before v1alpha1.WorkloadPhase
	// due is the time until the next pass without an event, 0 for never.
	due       time.Duration
	Conflicts []*apply.Conflict
	// finalizerErr is why the finalizer could not be applied; unneeded means that nothing has to be held.
	finalizerErr error
	unneeded     bool
}

// Begin returns a pass, or none for an object that is older than our own last write of it: the watch brings the newer
// one, and wait is when to look again if it does not.
func (c *Core) Begin(
	ctx context.Context, object client.Object, conditions []metav1.Condition,
) (p *Pass, wait time.Duration, err error) {
	if wait, err := c.Applier.Ahead(ctx, object, c.Kind.Managers...); wait > 0 || err != nil {
		return nil, wait, err
	}
	return &Pass{core: c, object: object, conditions: conditions, RefusalTimeout: ProgressDeadline}, 0, nil
}

// ProgressDeadline is how long an object may make no progress before it is Stalled, unless its spec says so: that of
// a Deployment.
const ProgressDeadline = 600 * time.Second

// Due requests a pass after a time, the shortest of several; 0 is never.
func (p *Pass) Due(after time.Duration) { p.due = apply.ShortestWait(p.due, after) }

// Apply writes as a manager (see apply.Writer.Apply), and records Events about repairs, take-overs, and values that
// admission changes.
func (p *Pass) Apply(
	ctx context.Context, manager ownership.Manager, live client.Object, ac runtime.ApplyConfiguration,
	opts ...apply.Option,
) (apply.Outcome, error) {
	done, err := p.write(ctx, manager, live, ac, opts...)
	countApply(manager, result(done, err), done, err)
	return done, err
}

// ApplyAside is Apply for an object on which nothing rests. Its error is none of the pass, so it makes nothing else
// wait: it is logged once until it changes or ends, news reports whether it is new, and a refusal counts by itself.
func (p *Pass) ApplyAside(
	ctx context.Context, manager ownership.Manager, live client.Object, ac runtime.ApplyConfiguration, kind string,
) (done apply.Outcome, news bool, err error) {
	done, err = p.write(ctx, manager, live, ac)
	countApply(manager, resultAside(done, err), done, err)
	return done, p.logAside(ctx, kind, err), err
}

func (p *Pass) write(
	ctx context.Context, manager ownership.Manager, live client.Object, ac runtime.ApplyConfiguration,
	opts ...apply.Option,
) (apply.Outcome, error) {
	done, err := p.core.Applier.As(manager).Apply(ctx, live, ac, opts...)
	p.Conflicts = append(p.Conflicts, apply.Conflicts(err)...)
	if err == nil && done.Repaired != nil {
		p.Event(corev1.EventTypeWarning, "FieldsRepaired", "Repair", done.Repaired.String()+", which Freehold owns; set back")
	}
	if err == nil && done.TakenOver != nil {
		note := "took over " + done.TakenOver.String()
		if slices.Contains(done.TakenOver.From, ownership.BeforeFirstApply) {
			note += ", because its metadata.managedFields were reset; what a manifest drops before it is applied again stays: " +
				"remove it with kubectl edit"
		}
		p.Event(corev1.EventTypeNormal, "FieldsTakenOver", "Adopt", note)
	}
	if err == nil && done.Rewritten != nil {
		p.Event(corev1.EventTypeNormal, "FieldsRewritten", "Apply", fmt.Sprintf(
			"admission of this cluster changes what Freehold applies to %s; Freehold keeps the changed value", done.Rewritten))
	}
	p.Due(done.RequeueAfter)
	return done, err
}

// Remove deletes an object as a manager (see apply.Writer.Remove).
func (p *Pass) Remove(ctx context.Context, manager ownership.Manager, live client.Object) error {
	return p.core.Applier.As(manager).Remove(ctx, live)
}

// A refused write is tried again after firstWait, then after twice as long each time, up to apply.MaxRetryDelay: the
// right or policy that it lacks may be on its way.
const firstWait = time.Second

type refusal struct {
	text string
	wait time.Duration
}

// End returns what the queue does next, by apply.RetryOf. Each of several errors counts by itself: a write that timed
// out is retried beside one that was refused. The queue takes no time beside an error, so a retry precedes whatever
// is due. A refusal is logged once, until it changes or ends.
func (p *Pass) End(ctx context.Context, err error) (ctrl.Result, error) {
	p.count(err)
	if apply.RetryOf(err) == apply.RetryNow {
		return ctrl.Result{}, apply.OnlyRetried(err, apply.RetryNow, apply.RetryLater, apply.Terminal)
	}
	p.Due(apply.RetryDelay(err))
	refused := apply.Refused(err)
	if apply.OnlyRetried(err, apply.Terminal) != nil && p.due == 0 {
		return ctrl.Result{}, reconcile.TerminalError(refused)
	}
	if p.noteRefusal(refused) {
		// The queue logs only errors that are returned to it.
		logf.FromContext(ctx).Error(refused, "refused", "again", p.due.String())
	}
	return ctrl.Result{RequeueAfter: p.due}, nil
}

// noteRefusal remembers the refusal, schedules its retry, and reports whether it is new.
func (p *Pass) noteRefusal(err error) (news bool) {
	uid := p.object.GetUID()
	if err == nil {
		p.core.lastRefused.Remove(uid)
		return false
	}
	remembered, _ := p.core.lastRefused.Get(uid)
	last, _ := remembered.(refusal)
	now := refusal{text: err.Error(), wait: max(firstWait, min(2*last.wait, apply.MaxRetryDelay))}
	p.core.lastRefused.Add(uid, now)
	if apply.OnlyRetried(err, apply.RetryLater) != nil {
		p.Due(now.wait)
	}
	return now.text != last.text
}

// aside is an object on which nothing rests, beside that of a pass.
type aside struct {
	of   types.UID
	kind string
}

// logAside logs an error once until it changes or ends, and reports whether it is new.
func (p *Pass) logAside(ctx context.Context, kind string, err error) (news bool) {
	key := aside{p.object.GetUID(), kind}
	if err == nil {
		p.core.lastRefused.Remove(key)
		return false
	}
	last, known := p.core.lastRefused.Get(key)
	if news = !known || last != err.Error(); news {
		logf.FromContext(ctx).Error(err, "refused, and all else goes on", "object", kind)
	}
	p.core.lastRefused.Add(key, err.Error())
	return news
}

// Log returns a logger whose lines name the controller and the object, by the keys of the runner's log: namespace,
// and called, such as server.
func (Core) Log(mgr ctrl.Manager, controller, called string) func(*ctrl.Request) logr.Logger {
	log := mgr.GetLogger().WithValues("controller", controller)
	return func(request *ctrl.Request) logr.Logger {
		if request == nil {
			return log
		}
		return log.WithValues("namespace", request.Namespace, called, request.Name)
	}
}
