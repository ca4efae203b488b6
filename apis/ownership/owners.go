package ownership

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Applied returns the fields that manager owns by apply in a subresource of a
// live object, empty if it owns none. It returns an error if the entry cannot
// be read.
//
// Update entries of the same name are another owner and do not count:
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers.
func Applied(entries []metav1.ManagedFieldsEntry, manager Manager, subresource string) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	for _, entry := range entries {
		if entry.Manager != string(manager) || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != subresource {
			continue
		}
		// The raw reader, because Raw is gone under the build tag fieldsv1string.
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading the fields of manager %s: %w", manager, err)
		}
		return set, nil
	}
	return set, nil
}

// Owner is one holder of a field.
type Owner struct {
	Manager     string
	Operation   metav1.ManagedFieldsOperationType
	Subresource string
}

// Owners returns who holds field in a live object, in the order of its
// managedFields. It returns an error if an entry cannot be read.
func Owners(entries []metav1.ManagedFieldsEntry, field Path) ([]Owner, error) {
	var owners []Owner
	for _, entry := range entries {
		if entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading the fields of manager %s: %w", entry.Manager, err)
		}
		holds := false
		set.Iterate(func(p fieldpath.Path) { holds = holds || field.Covers(p) })
		if holds {
			owners = append(owners, Owner{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource})
		}
	}
	return owners, nil
}
