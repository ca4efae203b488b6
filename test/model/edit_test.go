package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// ourLeaves are the fields of an object that our managers hold and that others may change, in a fixed order.
func ourLeaves(o *unstructured.Unstructured, subresource string) []fieldpath.Path {
	var paths []fieldpath.Path
	for _, entry := range entriesOf(o) {
		if !contract.Freehold().Claims(entry.Manager) || entry.Operation != metav1.ManagedFieldsOperationApply ||
			entry.Subresource != subresource {
			continue
		}
		set, err := ownership.Fields(entry)
		if err != nil {
			continue // the checker says so
		}
		set.Leaves().Iterate(func(path fieldpath.Path) {
			if mayBeTaken(path) {
				paths = append(paths, path.Copy())
			}
		})
	}
	return paths
}

// untouched are fields that nobody can change, or that nobody's change of can be undone: a workload generation only
// rises, and one that no claim made stays. Runs of runners only and test/policy are about those.
var untouched = []string{
	"ownerReferences", "finalizers", "selector", "workload", "runtime", "lastTransitionTime", "roleRef",
	revision.AnnotationGeneration, revision.AnnotationHash,
}

func mayBeTaken(path fieldpath.Path) bool {
	for i, step := range path {
		switch {
		case step.FieldName == nil:
		case slices.Contains(untouched, *step.FieldName):
			return false
		case i > 0 && path[i-1].Key != nil && keyOf(path[i-1], *step.FieldName):
			return false // it names the item
		}
	}
	return path[len(path)-1].FieldName != nil
}

func keyOf(item fieldpath.PathElement, name string) bool {
	for _, field := range *item.Key {
		if field.Name == name {
			return true
		}
	}
	return false
}

// otherwise is another value in place of old.
func (p *scenario) otherwise(old any) any {
	n := p.random.IntN(100)
	switch old := old.(type) {
	case string:
		switch old {
		case "True":
			return "False"
		case "False":
			return "True"
		}
		return fmt.Sprintf("foreign-%d", n)
	case int64:
		return old + 1 + int64(n%3)
	case bool:
		return !old
	case []any:
		// Of a Role's rules one goes, a RoleBinding's subject is another.
		if first, ok := old[0].(map[string]any); ok && len(old) > 1 {
			return old[1:]
		} else if first["from"] != nil {
			return []any{map[string]any{}} // of a NetworkPolicy, whatever it is from
		} else if ok {
			changed := maps.Clone(first)
			changed["name"] = fmt.Sprintf("foreign-%d", n)
			return []any{changed}
		}
		return append(slices.Clone(old), fmt.Sprintf("foreign-%d", n))
	case map[string]any:
		// a NetworkPolicy's selector is one value
		return map[string]any{"matchLabels": map[string]any{"foreign": fmt.Sprint(n)}}
	}
	return nil
}

// change replaces the value at path in object by what to makes of it, and
// returns where that is as a JSON pointer, empty if there is no such value.
func change(object map[string]any, path fieldpath.Path, to func(any) any) (pointer string, value any) {
	var at any = object
	for i, step := range path {
		switch in := at.(type) {
		case map[string]any:
			if step.FieldName == nil {
				return "", nil
			}
			name := *step.FieldName
			pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			if i < len(path)-1 {
				at = in[name]
				continue
			}
			old, found := in[name]
			if value = to(old); !found || value == nil {
				return "", nil
			}
			in[name] = value
			return pointer, value
		case []any:
			n := slices.IndexFunc(in, func(item any) bool { return step.Key != nil && isItem(item, step) })
			if n < 0 {
				return "", nil
			}
			pointer += fmt.Sprint("/", n)
			at = in[n]
		default:
			return "", nil
		}
	}
	return "", nil
}

func isItem(item any, step fieldpath.PathElement) bool {
	fields, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for _, key := range *step.Key {
		if fmt.Sprint(fields[key.Name]) != fmt.Sprint(key.Value.Unstructured()) {
			return false
		}
	}
	return true
}

// statement states value at path, and nothing else.
func statement(path fieldpath.Path, value any) any {
	if len(path) == 0 {
		return value
	}
	below := statement(path[1:], value)
	if path[0].FieldName != nil {
		return map[string]any{*path[0].FieldName: below}
	}
	item, ok := below.(map[string]any)
	if !ok || path[0].Key == nil {
		return below
	}
	for _, key := range *path[0].Key {
		item[key.Name] = key.Value.Unstructured()
	}
	return []any{item}
}

// about is an object without content but its name.
func about(o *unstructured.Unstructured) *unstructured.Unstructured {
	bare := &unstructured.Unstructured{Object: map[string]any{}}
	bare.SetGroupVersionKind(o.GroupVersionKind())
	bare.SetNamespace(o.GetNamespace())
	bare.SetName(o.GetName())
	return bare
}
