package ownership

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Takeover is the right to move fields in managedFields from who holds them to
// the manager whose they are by the contract: an apply alone takes only values
// that it changes, and beside an equal one the old owner stays, so that what the
// manager states no more would stay too.
type Takeover struct {
	// Annotation with the value "true" on an object hands it over.
	Annotation string
}

// BeforeFirstApply is the manager to which the API server gives all fields of an
// object without managedFields, as after a reset, when it is first applied. It
// stands for nobody who writes, so that nothing it holds would ever go
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields).
const BeforeFirstApply = "before-first-apply"

// LeftBehind reports whether an entry of managedFields is of nobody who writes
// now. It stems from an earlier release of the contract's owner: it has one of
// the contract's names but is no apply, or a name of the same domain that the
// contract has no more. Or it is that of BeforeFirstApply.
func (c Contract) LeftBehind(entry metav1.ManagedFieldsEntry) bool {
	if entry.Manager == BeforeFirstApply && entry.Operation == metav1.ManagedFieldsOperationUpdate {
		return true
	}
	if entry.Operation == metav1.ManagedFieldsOperationApply &&
		slices.ContainsFunc(c.Grants, func(g Grant) bool { return string(g.Manager) == entry.Manager }) {
		return false
	}
	return c.Claims(entry.Manager)
}

// TakeOver returns the managedFields of an object called name as they are once
// the grant's manager has taken over what the contract gives to it alone, and
// from whom; nil entries if that is so already. It takes from what was left
// behind and, if the object was handed over, from everybody.
//
// What others hold by the contract stays theirs, as Judge has it: fields that
// are nobody's, labels, annotations and items of lists beside those that the
// manager states, and all that was written through another subresource. stated
// are the fields that the manager is about to apply: what it takes and does not
// state, that apply gives up.
//
// It returns an error if an entry cannot be read.
func (c Contract) TakeOver(g Grant, name string, entries []metav1.ManagedFieldsEntry, stated *fieldpath.Set, handed bool) (after []metav1.ManagedFieldsEntry, from []string, err error) {
	own, err := Applied(entries, g.Manager, g.Object.Subresource)
	if err != nil {
		return nil, nil, err
	}
	j := c.judge(g.Object.GroupKind(), name)
	j.note(g.Manager, own.Union(stated))
	mine := metav1.ManagedFieldsEntry{
		Manager: string(g.Manager), Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: g.Object.GroupVersion().String(), Subresource: g.Object.Subresource, FieldsType: "FieldsV1",
	}
	for _, entry := range entries {
		switch left := c.LeftBehind(entry); {
		case entry.Subresource != mine.Subresource || entry.Manager != mine.Manager && !left && !handed:
			after = append(after, entry)
			continue
		case entry.Manager == mine.Manager && entry.Operation == mine.Operation:
			mine = entry
			continue
		}
		taken, stays, err := j.part(entry, g.Manager)
		if err != nil {
			return nil, nil, err
		}
		if stays == nil {
			after = append(after, entry)
			continue
		}
		from = append(from, entry.Manager)
		own = own.Union(taken)
		if mine.Time == nil {
			mine.Time = entry.Time
		}
		if entry.FieldsV1, err = written(stays); err != nil {
			return nil, nil, err
		}
		if !stays.Empty() {
			after = append(after, entry)
		}
	}
	if len(entries) == 0 && handed {
		own = stated // else the first apply makes an entry of all for nobody
	} else if from == nil {
		return nil, nil, nil
	}
	if mine.FieldsV1, err = written(own); err != nil {
		return nil, nil, err
	}
	if !own.Empty() {
		after = append(after, mine)
	}
	slices.Sort(from)
	return after, slices.Compact(from), nil
}

// part divides what an entry holds into what becomes the manager's and what
// stays; stays is nil if everything does. What an Update entry that was left behind
// holds and no grant has becomes nobody's: who states it next has it alone.
func (j judge) part(entry metav1.ManagedFieldsEntry, manager Manager) (taken, stays *fieldpath.Set, err error) {
	held, err := Fields(entry)
	if err != nil {
		return nil, nil, err
	}
	stale := entry.Operation == metav1.ManagedFieldsOperationUpdate && j.contract.LeftBehind(entry)
	owner := Owner{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource}
	taken, stays = &fieldpath.Set{}, &fieldpath.Set{}
	// All members, not only leaves: who states an item holds the item itself too.
	held.Iterate(func(field fieldpath.Path) {
		verdict, whose := j.verdict(Holding{Owner: owner, Field: field})
		switch {
		case whose == manager && verdict.Wrong():
			taken.Insert(field)
		case whose != "" || !stale:
			stays.Insert(field)
		}
	})
	if stays.Equals(held) {
		return nil, nil, nil
	}
	return taken, stays, nil
}

// written is a set as managedFields have it.
func written(set *fieldpath.Set) (*metav1.FieldsV1, error) {
	text, err := set.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("writing managedFields: %w", err)
	}
	return metav1.NewFieldsV1(string(text)), nil
}
