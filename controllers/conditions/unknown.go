package conditions

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// mostUnknown bounds how many fields a message lists.
const mostUnknown = 10

// UnknownFields finds fields of an object's spec that this program's schema lacks: the CustomResourceDefinition is of
// a later release, and decoding into the Go type drops them. managedFields still list them
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management); entries of another API
// version may use other names, and are skipped.
func UnknownFields(object any, version string, entries []metav1.ManagedFieldsEntry) *Finding {
	var unknown []string
	for _, entry := range entries {
		if entry.Subresource != "" || entry.APIVersion != version {
			continue
		}
		set, err := ownership.Fields(entry)
		if err != nil {
			continue // nobody can tell what it names
		}
		set.Iterate(func(path fieldpath.Path) {
			if path[0].FieldName == nil || *path[0].FieldName != "spec" {
				return
			}
			if n := knownPrefix(reflect.TypeOf(object), path); n < len(path) {
				unknown = append(unknown, strings.TrimPrefix(path[:n+1].String(), "."))
			}
		})
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	if unknown = slices.Compact(unknown); len(unknown) > mostUnknown {
		unknown = append(unknown[:mostUnknown], "and more")
	}
	return new(True(v1alpha1.ReasonLaterRelease,
		"the operator does not know these fields, and does nothing for them: "+strings.Join(unknown, ", ")+
			". The CustomResourceDefinition is of a later release: upgrade the operator, or remove the fields"))
}

// knownPrefix is how many leading elements of a path exist in a type. Types that decode themselves count as fully
// known.
func knownPrefix(t reflect.Type, path fieldpath.Path) int {
	for i, element := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
			return len(path)
		case t.Kind() == reflect.Struct && element.FieldName != nil:
			field, ok := value.TypeReflectEntryOf(t).Fields()[*element.FieldName]
			if !ok {
				return i
			}
			t = field.GetFrom(reflect.Zero(t)).Type()
		case t.Kind() == reflect.Map, t.Kind() == reflect.Slice:
			t = t.Elem()
		default:
			return len(path)
		}
	}
	return len(path)
}
