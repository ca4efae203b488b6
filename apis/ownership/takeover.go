package ownership

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Takeover is the right to move fields in managedFields from their holders to the manager whose they are by the
// contract. An apply alone takes only values that it changes; beside an equal value the old owner stays, so a field
// that the manager no longer states would stay too.
type Takeover struct {
	// Annotation with the value "true" on an object hands it over.
	Annotation string
}

// BeforeFirstApply is the manager to which the API server gives all fields of an object without managedFields, as
// after a reset, at the next apply. Nobody writes as it, so its fields would stay for ever
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields).
const BeforeFirstApply = "before-first-apply"

// IsReset reports whether an entry of managedFields is that of BeforeFirstApply.
func IsReset(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == BeforeFirstApply && entry.Operation == metav1.ManagedFieldsOperationUpdate
}

// TakeOver returns the managedFields of an object called name after the grant's manager has taken over what is its
// alone, and from whom; nil entries if that is so already. It takes everything from BeforeFirstApply and, if the object
// was handed over, from everybody; else it takes from others what the manager does not state, which no apply of its own
// would remove. What BeforeFirstApply holds through another subresource goes to the managers of that subresource: the
// API server ignores managedFields in a write there. nobodys are fields that need no entry, and that go as well.
//
// What others hold by the contract stays theirs, as Judge has it: nobody's fields, labels, annotations and items of
// lists beside those that the manager states, and all that was written through another subresource. stated are the
// fields that the manager will apply: that apply gives up what it took and does not state.
//
// It returns an error if an entry cannot be read.
func (c Contract) TakeOver(g Grant, name string, entries []metav1.ManagedFieldsEntry, stated, nobodys *fieldpath.Set,
	handed bool,
) (after []metav1.ManagedFieldsEntry, from []string, err error) {
	if len(entries) == 0 && handed { // else the first apply makes an entry of all for nobody
		after, err = given(nil, g, stated, nil)
		return after, nil, err
	}
	own, err := Applied(entries, g.Manager, g.Object.Subresource)
	if err != nil {
		return nil, nil, err
	}
	j := c.judge(g.Object.GroupKind(), name)
	j.note(g.Manager, own.Union(stated))
	after = slices.Clone(entries)
	for _, entry := range entries {
		to := []Grant{g}
		switch same := entry.Subresource == g.Object.Subresource; {
		case IsReset(entry) && !same:
			to = slices.DeleteFunc(slices.Clone(j.grants),
				func(g Grant) bool { return g.Object.Subresource != entry.Subresource })
		case !same, entry.Manager == string(g.Manager) && entry.Operation == metav1.ManagedFieldsOperationApply:
			continue
		}
		kept := stated
		if handed || IsReset(entry) {
			kept = &fieldpath.Set{}
		}
		moved, err := j.move(after, entry, to, kept)
		if err != nil {
			return nil, nil, err
		}
		if moved != nil {
			after, from = moved, append(from, entry.Manager)
		}
	}
	left := nobodys.Difference(own)
	if from == nil && left.Empty() {
		return nil, nil, nil
	}
	if after, err = given(after, g, left, nil); err != nil {
		return nil, nil, err
	}
	slices.Sort(from)
	return after, slices.Compact(from), nil
}

// move moves the fields of an entry, except kept ones, to the managers of their grants, and returns nil if none has
// any. Fields of a reset that no grant has become nobody's: the next manager that states one has it alone. But a
// finalizer stays: the API server removes one of nobody with the last that an applier gives up.
func (j judge) move(entries []metav1.ManagedFieldsEntry, entry metav1.ManagedFieldsEntry, to []Grant,
	kept *fieldpath.Set,
) ([]metav1.ManagedFieldsEntry, error) {
	held, err := Fields(entry)
	if err != nil {
		return nil, err
	}
	theirs, stays := map[Manager]*fieldpath.Set{}, &fieldpath.Set{}
	for _, g := range to {
		theirs[g.Manager] = &fieldpath.Set{}
		if g.Object.Subresource != "" {
			j.note(g.Manager, held) // also the items of its lists
		}
	}
	owner := Owner{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource}
	// All members, not only leaves: who states an item holds the item itself too.
	held.Iterate(func(field fieldpath.Path) {
		verdict, whose := j.verdict(Holding{Owner: owner, Field: field})
		switch taken := theirs[whose]; {
		case taken != nil && verdict.Wrong() && !kept.Has(field):
			taken.Insert(field)
		case whose != "" || !IsReset(entry) || isFinalizer(field):
			stays.Insert(field)
		}
	})
	if stays.Equals(held) {
		return nil, nil
	}
	is := func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == entry.Manager && e.Operation == entry.Operation && e.Subresource == entry.Subresource &&
			e.APIVersion == entry.APIVersion
	}
	i := slices.IndexFunc(entries, is)
	if entries = slices.Delete(slices.Clone(entries), i, i+1); !stays.Empty() {
		if entry.FieldsV1, err = written(stays); err != nil {
			return nil, err
		}
		entries = slices.Insert(entries, i, entry)
	}
	for _, g := range to {
		if entries, err = given(entries, g, theirs[g.Manager], entry.Time); err != nil {
			return nil, err
		}
		theirs[g.Manager] = &fieldpath.Set{} // it may have several grants
	}
	return entries, nil
}

func isFinalizer(field fieldpath.Path) bool {
	const name = 3 // metadata, finalizers, and which
	return len(field) == name && field[:name-1].Equals(fieldpath.MakePathOrDie("metadata", "finalizers"))
}

// given returns entries after the grant's manager has taken fields; at is the time of its entry if it had none.
func given(entries []metav1.ManagedFieldsEntry, g Grant, fields *fieldpath.Set,
	at *metav1.Time,
) ([]metav1.ManagedFieldsEntry, error) {
	if fields.Empty() {
		return entries, nil
	}
	mine := metav1.ManagedFieldsEntry{
		Manager: string(g.Manager), Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: g.Object.GroupVersion().String(), Subresource: g.Object.Subresource, FieldsType: "FieldsV1", Time: at,
	}
	var others []metav1.ManagedFieldsEntry
	for _, e := range entries {
		if e.Manager == mine.Manager && e.Operation == mine.Operation && e.Subresource == mine.Subresource {
			mine = e
		} else {
			others = append(others, e)
		}
	}
	own, err := Fields(mine)
	if err != nil {
		return nil, err
	}
	if mine.FieldsV1, err = written(own.Union(fields)); err != nil {
		return nil, err
	}
	return append(others, mine), nil
}

func written(set *fieldpath.Set) (*metav1.FieldsV1, error) {
	text, err := set.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("writing managedFields: %w", err)
	}
	return metav1.NewFieldsV1(string(text)), nil
}
