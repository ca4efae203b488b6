// Package mcpserver runs MCPServers: everything around the proxy is applied
// here, the backend by the runner in the proxy pod. It runs MCPRemoteProxies too,
// in the form of servers without a backend (controllers/kinds): what differs asks
// the kind.
//
// controller.go is the pass, controller_kind.go what the frame is told of a kind,
// controller_claims.go who claims, controller_protect.go what goes out though the
// rest was refused, controller_adopt.go what is taken
// over, controller_known.go what need not be rendered again, controller_identity.go what the runner acts
// with, controller_session.go the key of its session ids, observe.go all its reads, observe_revisions.go the numbers in them,
// observe_refusal.go why pods are refused, observe_unseen.go what a cache does not show, observe_configs.go and desired_configs.go
// the configurations that servers share, desired.go what is wanted, desired_grow.go of how many pods, status.go
// what is reported, and who overwrites it, status_ready.go whether calls are served, status_spec.go what
// is wrong with a spec, status_pods.go what is wrong with pods, status_progress.go
// when a server is stalled, deletion.go the pass of a server that goes, watches.go what wakes it. What a
// pass shares with those of other kinds is in controllers/reconcile.
package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/complaints"
	"github.com/freehold-dev/freehold/controllers/configs/store"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// remembered is how many servers a process remembers something of. Forgetting
// one costs patience or a claim, never a wrong write.
const remembered = 1 << 14

// Reconciler makes the world be as the objects of a kind say.
type Reconciler struct {
	reconcile.Core
	kind    kinds.Kind
	reader  client.Reader // the cache
	live    client.Reader // the API server, where a cache cannot know
	options podtemplate.Options
	// going is since when, by the core's clock, a server is seen to stop, lastClaims are
	// what this process claimed, refusals what refuses pods, and numbers how many there
	// are where others are reported, all by uid.
	going, lastClaims, refusals, numbers *lru.Cache
	// specs are what came of specs, by uid of the server, and objects those that were found
	// to carry specs, by their own.
	specs, objects *lru.Cache
	// Large and Configs are those of the process, and Percent is how many of a hundred servers
	// take a changed configuration at a time.
	Large   *reconcile.Turn
	Configs *store.Store
	Percent int
	// Complaints are those about pods; nil for none.
	Complaints *complaints.Store
}

// New returns a Reconciler of a kind. reader may be a cache, live may not.
func New(kind kinds.Kind, reader, live client.Reader, applier *apply.Applier, recorder events.EventRecorder, options podtemplate.Options) *Reconciler {
	r := &Reconciler{
		Core: reconcile.NewCore(applier, recorder, framed(kind)), kind: kind,
		reader: reader, live: live, options: options,
		going: lru.New(remembered), lastClaims: lru.New(remembered), refusals: lru.New(remembered), numbers: lru.New(remembered),
		specs: lru.New(remembered), objects: lru.New(2 * remembered),
		Large: &reconcile.Turn{}, Configs: store.New(), Percent: rollout.DefaultPercent,
	}
	applier.OnRestore(r.specs.Clear)
	applier.OnRestore(r.objects.Clear)
	return r
}

// Reconcile is one pass over one object, in the form of a server.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object, turn := r.kind.New(), r.Large.Of(req.Namespace, r.kind.Object.Kind+" "+req.Name)
	defer turn.Leave()
	wait, err := turn.Read(ctx, r.reader, r.live, req.NamespacedName, object, r.Now())
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	var leftErr error
	if r.kind.Backend && client.IgnoreNotFound(err) == nil {
		var left bool
		if left, leftErr = r.removeLeftPolicy(ctx, req.NamespacedName, object.GetUID()); left && leftErr == nil {
			return ctrl.Result{}, nil // its end wakes the next pass
		}
	}
	if err != nil {
		return ctrl.Result{}, errors.Join(leftErr, r.Gone(req.NamespacedName, err))
	}
	server := kinds.Form(object)
	frame, wait, err := r.Begin(ctx, object, server.Status.Conditions)
	if frame == nil {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	p := &pass{frame, object, server, turn}
	p.Patience, p.Served = patience(server, v1alpha1.ReasonApplyFailed), server.Status.ServedGeneration
	w, err := r.observe(ctx, p)
	if err != nil {
		return p.End(ctx, errors.Join(leftErr, err))
	}
	if server.DeletionTimestamp != nil {
		return p.End(ctx, errors.Join(leftErr, r.delete(ctx, p, w)))
	}
	if ready, err := r.refer(ctx, p, &w); !ready {
		return p.End(ctx, errors.Join(leftErr, err))
	}
	w.draining = r.drains(server, w)
	p.Due(w.draining)
	p.Due(w.deadline(server, r.Now()))
	p.Due(r.ask(ctx, p, &w)) // what refuses pods is no event
	return p.End(ctx, errors.Join(leftErr, r.run(ctx, p, w)))
}

// pass is a pass over an object, of which server is the form.
type pass struct {
	*reconcile.Pass
	object kinds.Object
	server *v1alpha1.MCPServer
	turn   *reconcile.Holder
}

// run decides and writes.
func (r *Reconciler) run(ctx context.Context, p *pass, w world) error {
	on, unheld := p.AddFinalizer(ctx)
	if !on {
		return unheld
	}
	server := p.server
	want, known := r.known(server, w)
	if !known {
		if ready, err := r.readConfigs(ctx, p, &w); !ready {
			return errors.Join(unheld, err)
		}
		want = desired(server, w, r.options)
		r.remember(server, w, want)
	}
	if latest, err := r.isLatest(ctx, server, want); err != nil || !latest {
		return errors.Join(unheld, err)
	}
	claimed, err := r.claim(ctx, p, w, want)
	switch {
	case apply.Refused(err) != nil:
		// Without its number the wanted content cannot go out, but the old may
		// have to stop, and why nothing moves is said.
		return errors.Join(unheld, err, r.protect(ctx, p, want), r.withdrawLost(ctx, p, w, want), r.stopOutdated(ctx, p, w, want), r.report(ctx, p, w, want, err))
	case err != nil || !claimed:
		return errors.Join(unheld, err)
	}
	applied := r.applyChildren(ctx, p, w, want)
	reported := r.report(ctx, p, w, want, applied)
	return errors.Join(unheld, applied, reported)
}

// claim makes sure that the wanted content has its number before anything
// carries it. It reports false if the pass must end here.
func (r *Reconciler) claim(ctx context.Context, p *pass, w world, want wanted) (bool, error) {
	server := p.server
	if !want.renderable() || want.kept {
		return true, nil
	}
	if want.claimed(server) {
		r.hold(server, want.revision)
		if want.recorded(server) {
			return true, nil
		}
		// Nothing was left to write where another manager holds the difference: no event comes.
		done, err := p.Apply(ctx, r.kind.WorkloadManager, p.object, want.workloadStatus(server), apply.AtVersion)
		return err == nil && done.Result == apply.Unchanged, err
	}
	if r.yields(p, want.revision) {
		return false, otherOperator{}
	}
	// Ready goes down before new content goes out, and says for what.
	if isReady(server) || lastReason(server) == v1alpha1.ReasonRolloutPending {
		return false, r.report(ctx, p, w, want, nil)
	}
	if err := r.makeKey(ctx, p, w, want); err != nil {
		return false, err
	}
	// Before the write, for its answer may be lost.
	r.hold(server, want.revision)
	_, err := p.Apply(ctx, r.kind.WorkloadManager, p.object, want.workloadStatus(server), apply.AtVersion)
	if err != nil {
		return false, err
	}
	p.Claimed(want.revision.Generation, want.changes(server, w))
	return true, nil
}

// applyAround applies what stands around the proxy, then the proxy, if all
// that its pods need is there.
func (r *Reconciler) applyAround(ctx context.Context, p *pass, w world, want wanted, opts ...apply.Option) error {
	server := p.server
	ours, err := r.applyIdentity(ctx, p, w, want, opts...)
	errs := []error{err}
	for _, child := range want.children {
		if errors.Is(err, apply.ErrNamespaceTerminating) {
			break // nor would the others be born
		}
		var done apply.Outcome
		done, err = p.Apply(ctx, child.manager, child.live, child.ac, opts...)
		if config, ok := child.live.(*metav1.PartialObjectMetadata); ok && config != nil && err == nil {
			r.found(server, config, done)
		}
		errs = append(errs, err)
	}
	refused := errors.Join(errs...)
	// A proxy of the wanted content has all that its pods need, and can still be
	// repaired; if the account of its pods is not the server's, only stopped. Content
	// that does not run yet must not start without it. What is in conflict is there.
	stands := revisionOf(w.proxy) == want.revision && (ours || server.Spec.Suspend)
	if apply.WithoutConflicts(refused) == nil || stands {
		refused = errors.Join(refused, r.applyProxy(ctx, p, w.proxy, want, opts...))
	}
	if apply.WithoutConflicts(refused) != nil {
		refused = errors.Join(refused, r.stopOutdated(ctx, p, w, want))
	}
	// Also where the proxy was refused: each change of the spec has made one.
	for _, config := range w.outdated(server, want.revision) {
		refused = errors.Join(refused, p.Remove(ctx, r.kind.ChildrenManager, config))
	}
	if want.opens != nil {
		refused = errors.Join(refused, p.Remove(ctx, r.kind.ChildrenManager, want.opens))
	}
	return refused
}

// applyProxy applies the Deployment through the gate, so that a leader that
// does not know it has been replaced cannot roll it back.
func (r *Reconciler) applyProxy(ctx context.Context, p *pass, live *appsv1.Deployment, want wanted, opts ...apply.Option) error {
	if want.proxy == nil {
		return nil
	}
	err := r.gatedProxy(ctx, p, live, want, opts...)
	if !errors.Is(err, apply.ErrExists) {
		return err
	}
	// The cache does not show what is there: decide on the server's.
	live = &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: p.server.Namespace, Name: workload.ProxyName(kinds.Key(p.server))}
	if err := r.live.Get(ctx, key, live); err != nil {
		return fmt.Errorf("reading Deployment %s: %w", key, err)
	}
	return r.gatedProxy(ctx, p, live, want, opts...)
}

func (r *Reconciler) gatedProxy(ctx context.Context, p *pass, live *appsv1.Deployment, want wanted, opts ...apply.Option) error {
	decision := revision.Gate(want.revision, live != nil, revisionOf(live))
	if decision == revision.StandBack && !want.kept {
		return nil // the next pass claims a number above, or it is said what stands in the way
	}
	left := want.clearHostNamespaces(live)
	opts = append(slices.Clone(opts), apply.AtVersion)
	if want.kept {
		opts = append(opts, apply.Restated)
	}
	done, err := p.Apply(ctx, r.kind.ChildrenManager, live, want.proxy, opts...)
	if err == nil && live != nil && !want.kept && !want.byPods {
		r.found(p.server, live, done) // by which pods run, it is to be another one soon
	}
	if err == nil && done.Result == apply.Configured && len(left) > 0 {
		p.Event(corev1.EventTypeWarning, "HostAccessRemoved", "Repair",
			fmt.Sprintf("another field manager set %s on the proxy's pods; Freehold set it back to false", strings.Join(left, ", ")))
	}
	return err
}

// applyScale carries spec.replicas to the backend, once the runner has made it.
// None are wanted only after the calls of the proxies have ended. The API server's
// default is left as it is until somebody states another number.
func (r *Reconciler) applyScale(ctx context.Context, p *pass, w world, want wanted) error {
	if !w.ownBackend || w.draining > 0 {
		return nil
	}
	replicas := want.backendReplicas(p.server, w.backend)
	if hasByDefault(w.backend, replicas) {
		return nil
	}
	_, err := p.Apply(ctx, contract.MCPServerScale, w.backend, scale(p.server, replicas))
	return err
}
