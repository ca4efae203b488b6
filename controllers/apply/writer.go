package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Applier has what all writers of a process share: the clients, the contract and the memory of writes.
type Applier struct {
	// Now is the clock for repairs and cache lag; time.Now unless set before the first Apply.
	Now func() time.Time

	client    client.Client
	clients   map[string]client.Client // by identity, where it is not client
	live      client.Reader
	converter *Converter
	contract  ownership.Contract
	memory    memory
	upToDate  *lru.Cache // what objects carry, by uid
	onRestore []func()
}

// OnRestore registers a function that forgets what was remembered by uid and generation. It is called after the API
// server's store was restored from a backup, because generations then repeat with another spec. Call OnRestore before
// the first Apply.
func (a *Applier) OnRestore(forget func()) { a.onRestore = append(a.onRestore, forget) }

// New returns an Applier. c sends the applies, unless Impersonate replaces it; live reads from the server, only where
// a cache cannot know.
func New(c client.Client, live client.Reader, converter *Converter, contract ownership.Contract) *Applier {
	return &Applier{
		Now: time.Now, client: c, clients: map[string]client.Client{}, live: live, converter: converter, contract: contract,
		memory: newMemory(), upToDate: lru.New(upToDateSize),
	}
}

// As returns the writer of one manager.
func (a *Applier) As(manager ownership.Manager) *Writer {
	return &Writer{applier: a, manager: manager}
}

// Writer writes as one field manager, within that manager's grants.
type Writer struct {
	applier *Applier
	manager ownership.Manager
}

// Option changes an Apply.
type Option int

const (
	// AtVersion makes the write conditional on the resourceVersion that was read. Only versioned grants allow it.
	AtVersion Option = iota + 1
	// KeepOwned means that ac was extracted from the live object, not rendered: empty maps and lists are sent as they
	// are, and no fields are taken over.
	KeepOwned
	// NoTakeover leaves an object that was handed over alone, and returns ErrHandedOver.
	NoTakeover
)

// Apply makes the object match ac, in the fields of the writer's grant. live is the object as it was read, or nil for
// a create; a *metav1.PartialObjectMetadata where the metadata determines the rest, as of an immutable object named by
// its content. ac must be complete: the manager gives up what ac no longer states.
//
// It returns *NotGranted or *BadIntent for a wrong intent; ErrForeign for an object that is not ours, *Unadoptable or
// ErrHandedOver if it was handed over; ErrExists if a create met an object; ErrGone, ErrReincarnated or ErrStale if
// the object moved, ErrOwnerGone if it would get an owner that goes; *Conflict if other managers hold fields of a
// shared grant, or the next repair waits; ErrNamespaceTerminating for a create in a namespace that is being deleted;
// else what the client returned.
func (w *Writer) Apply(
	ctx context.Context, live client.Object, ac runtime.ApplyConfiguration, opts ...Option,
) (Outcome, error) {
	asked := intentOf(ac, opts)
	if w.matches(live, asked) {
		return Outcome{UID: live.GetUID(), ResourceVersion: live.GetResourceVersion()}, nil
	}
	in, err := w.applier.converter.freeze(ac, opts...)
	if err != nil {
		return Outcome{}, fmt.Errorf("applying as %s: %w", w.manager, err)
	}
	outcome, err := w.applyIntent(ctx, live, in, slices.Contains(opts, AtVersion))
	if err != nil {
		return Outcome{}, fmt.Errorf("applying %s %s as %s: %w", in.gvk.Kind, in.key, w.manager, err)
	}
	w.remember(live, asked, outcome, in.has("status"))
	return outcome, nil
}

func (w *Writer) applyIntent(ctx context.Context, live client.Object, in intent, versioned bool) (Outcome, error) {
	grant, err := w.grant(in)
	if err != nil {
		return Outcome{}, err
	}
	if outside := grant.Outside(in.fields); len(outside) > 0 {
		return Outcome{}, &NotGranted{Manager: w.manager, Object: grant.Object.String(), Fields: outside}
	}
	if versioned && !grant.Versioned {
		return Outcome{}, &NotGranted{
			Manager: w.manager, Object: grant.Object.String(),
			Fields: []string{".metadata.resourceVersion"},
		}
	}
	k := w.memoryKey(in, grant)
	if grant.Once {
		return w.createOnce(ctx, live, in, grant, k)
	}
	if absent(live) {
		return w.create(ctx, in, grant, k)
	}
	pre := preconditions{uid: live.GetUID()}
	if grant.Object.Subresource != "" {
		pre.uid = "" // ignored there: a status apply never creates
	}
	if versioned {
		pre.resourceVersion = live.GetResourceVersion()
	}
	return w.update(ctx, live, in, grant, k, pre, true)
}

// update makes an existing object match the intent, or returns ErrExists where it must not write.
func (w *Writer) update(
	ctx context.Context, live client.Object, in intent, grant ownership.Grant, k memoryKey, pre preconditions,
	mayWrite bool,
) (Outcome, error) {
	t, settled, err := w.assess(ctx, live, in, grant, k)
	switch {
	case err != nil:
		return Outcome{}, err
	case settled:
		return w.unchangedOutcome(live, k), nil
	case !mayWrite:
		return Outcome{}, ErrExists
	}
	pre = w.atOwnedVersion(live, in, k, pre)
	if t != nil {
		return w.takeOver(ctx, live, in, grant, k, t, pre)
	}
	return w.repair(live, in, grant, k, nil, func() (Outcome, error) {
		if err := w.checkOwner(ctx, live, in); err != nil {
			return Outcome{}, err
		}
		return w.send(ctx, in, grant, k, pre)
	})
}

// assess returns what to transfer before the intent is applied to live, or that nothing has to be sent.
func (w *Writer) assess(
	ctx context.Context, live client.Object, in intent, grant ownership.Grant,
	k memoryKey,
) (t *transfer, settled bool, err error) {
	if t, err = w.transfer(ctx, live, in, grant, k); t == nil && err == nil {
		if settled, err = w.settled(ctx, live, in, grant, k); err == nil {
			t = w.applier.memory.pendingTransfer(k, live, settled)
		}
	}
	return t, settled, err
}

// settled reports whether the live object, or a newer write in memory, matches the intent.
func (w *Writer) settled(
	ctx context.Context, live client.Object, in intent, grant ownership.Grant, k memoryKey,
) (bool, error) {
	if len(live.GetManagedFields()) == 0 {
		if err := w.checkStripped(ctx, live); err != nil {
			return false, err
		}
	}
	if ahead, err := w.applier.ahead(ctx, live, k); err != nil {
		return false, err
	} else if ahead > 0 {
		return w.applier.memory.lastIntentIs(k, in)
	}
	return w.unchanged(live, in, grant.Object.Subresource, k)
}

// create applies to an absent object. A cache may not show an existing object yet, so an object in memory, or one that
// the create runs into, is read live.
func (w *Writer) create(ctx context.Context, in intent, grant ownership.Grant, k memoryKey) (Outcome, error) {
	if !grant.Create {
		return Outcome{}, ErrGone
	}
	if _, remembered := w.applier.memory.get(k); !remembered {
		outcome, err := w.send(ctx, in, grant, k, preconditions{create: true})
		if !errors.Is(err, ErrExists) {
			return outcome, err
		}
	}
	live, err := w.applier.read(ctx, in.gvk, in.key)
	if apierrors.IsNotFound(err) {
		w.applier.memory.forget(k)
		return w.send(ctx, in, grant, k, preconditions{create: true})
	}
	if err != nil {
		return Outcome{}, err
	}
	// A gate decided on what the cache showed; it must decide again on the live object.
	return w.update(ctx, live, in, grant, k, preconditions{uid: live.GetUID()}, !grant.Versioned)
}

func (w *Writer) send(
	ctx context.Context, in intent, grant ownership.Grant, k memoryKey, pre preconditions,
) (Outcome, error) {
	hash, err := in.hash()
	if err != nil {
		return Outcome{}, err
	}
	f, err := w.apply(ctx, in, grant, pre)
	if err != nil {
		return Outcome{}, err
	}
	last, _ := w.applier.memory.get(k)
	made, stays := w.storedBy(f, grant)
	w.applier.memory.put(k, written{
		uid: f.uid, resourceVersion: f.resourceVersion, intent: hash, at: w.applier.Now(),
		stored: made, leftoverReturns: stays, repairs: last.repairs,
	})
	outcome := Outcome{Result: Configured, UID: f.uid, ResourceVersion: f.resourceVersion, RequeueAfter: w.resend(k)}
	if fields := made.changed(); len(fields) > 0 && (last.uid != f.uid || !slices.Equal(last.stored.changed(), fields)) {
		outcome.Rewritten = &Rewrite{Object: grant.Object, Key: in.key, Fields: fields}
	}
	if pre.create {
		outcome.Result = Created
	}
	return outcome, nil
}

// apply sends the intent and returns the server's answer; metav1.DryRunAll stores nothing.
func (w *Writer) apply(
	ctx context.Context, in intent, grant ownership.Grant, pre preconditions, dryRun ...string,
) (*frozen, error) {
	body, err := in.body(pre)
	if err != nil {
		return nil, &BadIntent{Err: err}
	}
	f := &frozen{in: in, sent: body}
	opts := client.ApplyOptions{FieldManager: string(w.manager), DryRun: dryRun}
	if grant.Mode == ownership.Exclusive {
		opts.Force = new(true)
	}
	if grant.Object.Subresource == "" {
		err = w.applier.as(grant.Identity).Apply(ctx, f, &opts)
	} else {
		err = w.applier.as(grant.Identity).SubResource(grant.Object.Subresource).
			Apply(ctx, f, &client.SubResourceApplyOptions{ApplyOptions: opts})
	}
	if own, has := w.applier.converter.groups[in.gvk.Group]; has && isUnknownField(err) {
		err = olderSchema(in.gvk.Kind, own, err)
	}
	err = classify(err, pre)
	var c *Conflict
	if errors.As(err, &c) {
		c.Manager, c.Object, c.Key = w.manager, grant.Object, in.key
	}
	return f, err
}

// grant finds the intent's grant: on the status subresource if it states status, else on the main resource, else on
// whatever the manager has.
func (w *Writer) grant(in intent) (ownership.Grant, error) {
	subresources := []string{"", "status"}
	if in.has("status") {
		subresources = []string{"status"}
	}
	object := ownership.Object{GroupVersionKind: in.gvk}
	for _, object.Subresource = range subresources {
		if g, ok := w.applier.contract.Grant(w.manager, object, in.key.Name); ok {
			return g, nil
		}
	}
	return ownership.Grant{}, &NotGranted{Manager: w.manager, Object: object.Kind + " " + in.key.Name}
}

func (w *Writer) memoryKey(in intent, grant ownership.Grant) memoryKey {
	return memoryKey{gvk: in.gvk, key: in.key, manager: string(w.manager), subresource: grant.Object.Subresource}
}

// absent also recognizes a typed nil pointer.
func absent(obj client.Object) bool {
	if obj == nil {
		return true
	}
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
