// Package reconcile is the frame of a pass that all controllers share. A
// controller reads and decides; the frame writes as a manager, tells what
// happened, reports, and says how the pass ends.
//
// core.go has what the controllers of a process share and one pass of it,
// finalizer.go adds and removes the finalizer, report.go states the conditions,
// events.go records Events, end.go turns the end of a pass into what the queue
// understands, count.go counts for metrics, log.go says what the lines of a log have.
package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// Kind is what the frame is told of a kind of object.
type Kind struct {
	schema.GroupVersionKind
	// Finalizer holds an object until the order of its deletion is done, and
	// FinalizerManager states it; both are empty where nothing has to be held.
	Finalizer        string
	FinalizerManager ownership.Manager
	// ConditionsManager states the conditions, which are of these types and in
	// this order.
	ConditionsManager ownership.Manager
	Conditions        []string
	// Expected are the reasons of Ready and Suspended that nobody needs to act on,
	// and Waits those of Ready that need no Event, as another one tells what began.
	// After Renews that Ready is True again needs none either.
	NormalReasons, SilentReasons, SilentRecoveries []string
	// Managers are all that write the object itself.
	Managers []ownership.Manager
}

// Core is what the passes over objects of one kind share.
type Core struct {
	Applier *apply.Applier
	Events  events.EventRecorder
	// Now is the clock, the applier's. It need not agree with anybody else's.
	Now  func() time.Time
	Kind Kind
	// reworded is when the words of a refusal last changed, by what they are of, and
	// lastRefused what was refused last, by the object's uid.
	messageChanged, lastRefused *lru.Cache
	// known is the last generation whose spec had no unknown field, by the object's uid.
	schemaChecked     *lru.Cache
	contended *contended
}

// remembered is how many words, refusals and objects a process remembers. Forgetting words
// or a refusal costs a write.
const coreCacheSize = 1 << 14

// NewCore returns what the passes over objects of a kind share.
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
	// Patience is how long the deletion of the object may be refused before it is Stalled;
	// ProgressDeadline unless it is set.
	RefusalTimeout time.Duration
	// Served is what the report says of status.servedGeneration, 0 for nothing, and Phase what it says of status.phase.
	Served int64
	Phase  v1alpha1.WorkloadPhase
	// due is when the next pass is due though nothing happens, 0 for never.
	due time.Duration
	// Conflicts are the field conflicts that the pass has met.
	Conflicts []*apply.Conflict
	// unheld is why the finalizer could not be applied, and unneeded that nothing
	// has to be held.
	finalizerErr   error
	unneeded bool
}

// Begin returns a pass over an object. An object older than our own last write
// of it is history, and has no pass: the watch brings the newer one, and wait is
// when to look again if it does not.
func (c *Core) Begin(
	ctx context.Context, object client.Object, conditions []metav1.Condition,
) (p *Pass, wait time.Duration, err error) {
	if wait, err := c.Applier.Ahead(ctx, object, c.Kind.Managers...); wait > 0 || err != nil {
		return nil, wait, err
	}
	return &Pass{core: c, object: object, conditions: conditions, RefusalTimeout: ProgressDeadline}, 0, nil
}

// ProgressDeadline is for how long nothing may come true before an object is Stalled, where
// its spec does not say: as long as that of a Deployment.
const ProgressDeadline = 600 * time.Second

// Due notes when the next pass is due though nothing happens, the soonest of
// several; 0 is never.
func (p *Pass) Due(after time.Duration) { p.due = apply.ShortestWait(p.due, after) }

// Apply writes as a manager (see apply.Writer.Apply), and tells who had changed what
// it repairs, who had what it takes over, and what admission makes of it.
func (p *Pass) Apply(
	ctx context.Context, manager ownership.Manager, live client.Object, ac runtime.ApplyConfiguration,
	opts ...apply.Option,
) (apply.Outcome, error) {
	done, err := p.core.Applier.As(manager).Apply(ctx, live, ac, opts...)
	p.Conflicts = append(p.Conflicts, apply.Conflicts(err)...)
	countApply(manager, done, err)
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
