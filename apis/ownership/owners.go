package ownership

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Entry returns the managedFields entry of a manager's applies in a subresource, nil if there is none.
//
// Update entries of the same name are another owner and do not count:
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers.
func Entry(entries []metav1.ManagedFieldsEntry, manager Manager, subresource string) *metav1.FieldsV1 {
	for i := range entries {
		e := &entries[i]
		if e.Manager == string(manager) && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == subresource {
			return e.FieldsV1
		}
	}
	return nil
}

// Applied returns the fields of Entry, empty if there is none. It returns an error if they cannot be read.
func Applied(entries []metav1.ManagedFieldsEntry, manager Manager, subresource string) (*fieldpath.Set, error) {
	return Fields(metav1.ManagedFieldsEntry{Manager: string(manager), FieldsV1: Entry(entries, manager, subresource)})
}

// Fields returns the fields of one entry of managedFields. It returns an error if they cannot be read.
func Fields(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if entry.FieldsV1 == nil {
		return set, nil
	}
	// The raw reader, because Raw is gone under the build tag fieldsv1string.
	if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("reading the fields of manager %s: %w", entry.Manager, err)
	}
	return set, nil
}

// Owner is one holder of a field.
type Owner struct {
	Manager     string
	Operation   metav1.ManagedFieldsOperationType
	Subresource string
}

// Owners returns who holds field in a live object, in the order of its managedFields. It returns an error if an entry
// cannot be read.
func Owners(entries []metav1.ManagedFieldsEntry, field Path) ([]Owner, error) {
	var owners []Owner
	for _, entry := range entries {
		set, err := Fields(entry)
		if err != nil {
			return nil, err
		}
		holds := false
		set.Iterate(func(p fieldpath.Path) { holds = holds || field.Covers(p) })
		if holds {
			owners = append(owners, Owner{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource})
		}
	}
	return owners, nil
}
