package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Takeover describes what a write took over.
type Takeover struct {
	Object ownership.Object
	Key    types.NamespacedName
	// From are the managers that held the fields before, sorted; empty if nobody did.
	From []string
}

// String names the object and the managers.
func (t Takeover) String() string {
	from := "nobody"
	if len(t.From) > 0 {
		from = strings.Join(t.From, ", ")
	}
	return fmt.Sprintf("%s %s from %s", t.Object, t.Key.Name, from)
}

// Unadoptable says why an object that was handed over cannot be taken over. It is also ErrForeign.
type Unadoptable struct{ Err error }

func (e *Unadoptable) Error() string {
	return "an object of this name was handed over, but cannot be taken over: " + e.Err.Error()
}

// Is matches ErrForeign.
func (e *Unadoptable) Is(target error) bool { return target == ErrForeign }

// Unwrap returns the cause.
func (e *Unadoptable) Unwrap() error { return e.Err }

// transfer is what happens before an intent is applied, so that the apply removes the fields it no longer states.
type transfer struct {
	// foreign: the object has another owner or none. handed: it was handed over.
	foreign, handed bool
	// reset: the object was handed over, or lost its managedFields. The fields were then written earlier, by nobody who
	// works against the intent.
	reset bool
	// entries are the new managedFields, nil if the present ones are right.
	entries []metav1.ManagedFieldsEntry
	from    []string
	// fields are those that the apply removes, in the notation of the API server's conflict messages.
	fields []string
}

func (w *Writer) handedOver(live client.Object) bool {
	t := w.applier.contract.Takeover
	return t != nil && live.GetAnnotations()[t.Annotation] == "true"
}

// transfer returns what to take over before the intent is applied, nil if nothing: all of an object that was handed
// over, until the manager has an entry there; what a reset of managedFields left to nobody; and what others write
// beside the intent in the manager's grant, each time. It returns ErrForeign for a foreign object that was not handed
// over.
func (w *Writer) transfer(
	ctx context.Context, live client.Object, in intent, grant ownership.Grant, k memoryKey,
) (*transfer, error) {
	foreign := grant.Create && !w.ours(live, in)
	switch {
	case foreign && !w.handedOver(live):
		return nil, ErrForeign
	case foreign && in.noTakeover:
		return nil, ErrHandedOver
	}
	c, entries := w.applier.contract, live.GetManagedFields()
	// The API server ignores managedFields in a write to a subresource.
	if c.Takeover == nil || in.keepOwned || grant.Object.Subresource != "" || grant.Mode != ownership.Exclusive ||
		in.fields.Empty() {
		return nil, nil
	}
	if ahead, err := w.applier.ahead(ctx, live, k); ahead > 0 || err != nil {
		return nil, err // done, and still to be seen
	}
	t := &transfer{foreign: foreign, handed: w.handedOver(live) && ownership.Entry(entries, w.manager, "") == nil}
	t.reset = t.handed || slices.ContainsFunc(entries, ownership.IsReset)
	left, err := w.removableLeftovers(live, in, grant, k)
	if err != nil {
		return nil, err
	}
	beside := grant.Create && slices.ContainsFunc(entries, w.foreignEntry(in, grant))
	if !t.reset && left.Empty() && !beside {
		return nil, nil
	}
	if len(entries) == 0 {
		if err := w.checkStripped(ctx, live); err != nil {
			return nil, err
		}
	}
	t.entries, t.from, err = c.TakeOver(grant, in.key.Name, entries, in.fields, left, t.handed)
	if err != nil || t.entries == nil && !foreign {
		return nil, err
	}
	t.fields, err = w.removedFields(entries, t.entries, in)
	return t, err
}

// foreignEntry reports whether an entry may hold fields of the grant: its manager does not apply within the contract.
func (w *Writer) foreignEntry(in intent, grant ownership.Grant) func(metav1.ManagedFieldsEntry) bool {
	return func(e metav1.ManagedFieldsEntry) bool {
		if e.Subresource != grant.Object.Subresource {
			return false
		}
		_, known := w.applier.contract.Grant(ownership.Manager(e.Manager), grant.Object, in.key.Name)
		return !known || e.Operation != metav1.ManagedFieldsOperationApply
	}
}

// removedFields are those that the manager gains by the take-over, and that the intent does not state.
func (w *Writer) removedFields(before, after []metav1.ManagedFieldsEntry, in intent) ([]string, error) {
	had, err := ownership.Applied(before, w.manager, "")
	if err != nil {
		return nil, err
	}
	has, err := ownership.Applied(after, w.manager, "")
	if err != nil {
		return nil, err
	}
	var fields []string
	has.Difference(had).Difference(in.fields).Leaves().
		Iterate(func(p fieldpath.Path) { fields = append(fields, p.String()) })
	return fields, nil
}

// Adoptable returns nil if the object is absent, ours, or was handed over and can be taken over with ac; else
// ErrForeign or *Unadoptable. It writes nothing. A nil live is read from the server: a caller of several objects asks
// for each before it takes over one.
func (w *Writer) Adoptable(ctx context.Context, live client.Object, ac runtime.ApplyConfiguration) error {
	in, err := w.applier.converter.freeze(ac)
	if err != nil {
		return fmt.Errorf("adopting as %s: %w", w.manager, err)
	}
	if err := w.mayAdopt(ctx, live, in); err != nil {
		return fmt.Errorf("adopting %s %s as %s: %w", in.gvk.Kind, in.key, w.manager, err)
	}
	return nil
}

func (w *Writer) mayAdopt(ctx context.Context, live client.Object, in intent) error {
	grant, err := w.grant(in)
	if err != nil {
		return err
	}
	if absent(live) {
		live, err = w.applier.read(ctx, in.gvk, in.key)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	switch {
	case w.ours(live, in):
		return nil
	case !w.handedOver(live):
		return ErrForeign
	}
	return w.adoptable(ctx, live, in, grant, preconditions{uid: live.GetUID()})
}

// takeOver applies the intent after the transfer. An object that is handed over again after its take-over is a
// conflict, as for a manifest that a tool keeps writing, and so is what others write beside the intent.
func (w *Writer) takeOver(
	ctx context.Context, live client.Object, in intent, grant ownership.Grant, k memoryKey, t *transfer,
	pre preconditions,
) (Outcome, error) {
	write := func() (Outcome, error) {
		outcome, err := w.moveAndSend(ctx, live, in, grant, k, t, pre)
		outcome.TakenOver = &Takeover{Object: grant.Object, Key: in.key, From: t.from}
		return outcome, err
	}
	if last, ok := w.applier.memory.get(k); t.reset && (!ok || last.uid != live.GetUID() || !t.handed) {
		return write()
	}
	outcome, err := w.repair(live, in, grant, k, t, write)
	if outcome.Repaired != nil {
		outcome.TakenOver = nil
	}
	return outcome, err
}

// moveAndSend moves managedFields, then applies. A dry run first asks whether a foreign object can become ours, so
// that one that cannot stays untouched.
func (w *Writer) moveAndSend(
	ctx context.Context, live client.Object, in intent, grant ownership.Grant, k memoryKey, t *transfer,
	pre preconditions,
) (Outcome, error) {
	if err := w.checkOwner(ctx, live, in); err != nil {
		return Outcome{}, err
	}
	if t.foreign {
		if err := w.adoptable(ctx, live, in, grant, pre); err != nil {
			return Outcome{}, err
		}
	}
	if t.entries != nil {
		moved, err := w.move(ctx, live, t.entries)
		if err != nil {
			return Outcome{}, err
		}
		if pre.resourceVersion != "" {
			pre.resourceVersion = moved.GetResourceVersion()
		}
		w.applier.memory.recordTransfer(k, live, t)
	}
	return w.send(ctx, in, grant, k, pre)
}

// adoptable returns *Unadoptable if the object cannot become ours.
func (w *Writer) adoptable(
	ctx context.Context, live client.Object, in intent, grant ownership.Grant, pre preconditions,
) error {
	owner, ours := metav1.GetControllerOfNoCopy(live), in.controller()
	if owner != nil && ours != nil && owner.UID != ours.UID {
		return &Unadoptable{Err: fmt.Errorf("%s %s controls it: remove that owner from its metadata.ownerReferences first",
			owner.Kind, owner.Name)}
	}
	_, err := w.apply(ctx, in, grant, pre, metav1.DryRunAll)
	var bad *BadIntent
	if errors.As(err, &bad) || apierrors.IsForbidden(err) {
		return &Unadoptable{Err: err}
	}
	return err
}

// move writes only managedFields, at the version that was read, and returns the new object.
func (w *Writer) move(
	ctx context.Context, live client.Object, entries []metav1.ManagedFieldsEntry,
) (client.Object, error) {
	patch, err := json.Marshal([]map[string]any{
		// add replaces an existing value, and also works without one.
		{"op": "add", "path": "/metadata/managedFields", "value": entries},
		// With replace another version is a conflict; with test the patch would be invalid.
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err != nil {
		return nil, fmt.Errorf("writing managedFields: %w", err)
	}
	moved, ok := live.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("writing managedFields: %T is no object", live)
	}
	identity := w.applier.contract.Identity(w.manager)
	err = w.applier.as(identity).Patch(ctx, moved, client.RawPatch(types.JSONPatchType, patch),
		client.FieldOwner(string(w.manager)))
	return moved, classify(err, preconditions{resourceVersion: live.GetResourceVersion()})
}
