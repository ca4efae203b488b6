package podtemplate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// After a merge two statements about one field look like one, so clashes are found before it. If both state one
// field, ours would win silently. If both state parts of one value (an env item's value and valueFrom, two sources of
// a volume, two handlers of a probe), the merge would have both, and the server answers 422.

// Each probe has one of these handlers.
var handlers = []string{"exec", "grpc", "httpGet", "tcpSocket"}

// closed structs are one value, though the schema merges their fields.
var closed = []string{"appArmorProfile", "seccompProfile"}

// yield removes from ours what the overlay may replace, and does.
func (o overlay) yield(ours, theirs *typed.TypedValue) (*typed.TypedValue, error) {
	if o.yields == nil {
		return ours, nil
	}
	set, err := theirs.ToFieldSet()
	if err != nil {
		return nil, err
	}
	stated := fieldpath.NewSet()
	set.Iterate(func(path fieldpath.Path) {
		for i := range path {
			if o.yields.Has(path[:i+1]) {
				stated.Insert(path[:i+1].Copy())
			}
		}
	})
	return ours.RemoveItems(stated), nil
}

func (o overlay) clashes(ours, theirs *typed.TypedValue) []Problem {
	stated, err := newStatements(ours)
	if err != nil {
		return []Problem{{o.field, err.Error()}}
	}
	set, err := theirs.ToFieldSet()
	if err != nil {
		return []Problem{{o.field, err.Error()}}
	}
	var problems []Problem
	set.Iterate(func(path fieldpath.Path) {
		if problem, ok := o.clash(stated, path); ok {
			problems = append(problems, problem)
		}
	})
	return problems
}

type statements map[string]bool

func newStatements(ours *typed.TypedValue) (statements, error) {
	set, err := ours.ToFieldSet()
	if err != nil {
		return nil, err
	}
	stated := statements{}
	set.Iterate(func(path fieldpath.Path) {
		for i := range path {
			stated[path[:i+1].String()] = true
		}
	})
	return stated, nil
}

// clash is the first clash on a path of the overlay. It starts below the wrapper, whose apiVersion and kind both have.
func (o overlay) clash(stated statements, path fieldpath.Path) (Problem, bool) {
	for i := 2; i <= len(path); i++ {
		here, last := path[:i], path[i-1]
		both := stated[here.String()]
		name := ""
		if last.FieldName != nil {
			name = *last.FieldName
		}
		switch {
		case last.Key != nil:
			if both && !isContainer(here) {
				return o.refuse(here, "Freehold has this item: choose another"), true
			}
		case slices.Contains(handlers, name) && stated.otherHandler(here, name):
			return o.refuse(here, "Freehold states another handler of this probe: remove it"), true
		case both && (i == len(path) || slices.Contains(closed, name)) && !isKey(here):
			return o.refuse(here, "Freehold states this: remove it"), true
		}
	}
	return Problem{}, false
}

func (s statements) otherHandler(path fieldpath.Path, name string) bool {
	parent := path[:len(path)-1]
	return slices.ContainsFunc(handlers, func(other string) bool {
		sibling := append(parent.Copy(), fieldpath.PathElement{FieldName: &other})
		return other != name && s[sibling.String()]
	})
}

// isContainer reports whether a path ends at an item that others may add to: containers merge field by field, every
// other item is one value.
func isContainer(path fieldpath.Path) bool {
	list := path[len(path)-2].FieldName
	return list != nil && (*list == "containers" || *list == "initContainers")
}

// isKey reports whether a path ends at the key of its item.
func isKey(path fieldpath.Path) bool {
	item, last := path[len(path)-2], path[len(path)-1]
	return item.Key != nil && last.FieldName != nil &&
		slices.ContainsFunc(*item.Key, func(key value.Field) bool { return key.Name == *last.FieldName })
}

// refuse reports a clash, or the field of the MCPServer to use instead.
func (o overlay) refuse(path fieldpath.Path, message string) Problem {
	for _, element := range slices.Backward(path) {
		if element.FieldName != nil && o.instead[*element.FieldName] != "" {
			message = "comes from " + o.instead[*element.FieldName] + ": set that instead"
			break
		}
	}
	return Problem{o.field + fieldText(path[1:]), message}
}

// fieldText writes a path as the API does, with items by their keys.
func fieldText(path fieldpath.Path) string {
	var text strings.Builder
	for _, element := range path {
		switch {
		case element.FieldName != nil && strings.ContainsAny(*element.FieldName, "./"):
			fmt.Fprintf(&text, "[%q]", *element.FieldName)
		case element.FieldName != nil:
			text.WriteString("." + *element.FieldName)
		case element.Key != nil:
			keys := make([]string, len(*element.Key))
			for i, key := range *element.Key {
				keys[i] = fmt.Sprintf("%s=%v", key.Name, key.Value.Unstructured())
			}
			text.WriteString("[" + strings.Join(keys, ",") + "]")
		default:
			text.WriteString("[" + element.String() + "]")
		}
	}
	return text.String()
}

// portClashes finds ports of the overlay under our names. In one container the server refuses them; in another one a
// Service could not tell which is meant.
func (o overlay) portClashes(
	ours *corev1ac.PodTemplateSpecApplyConfiguration, theirs *corev1.PodTemplateSpec,
) []Problem {
	names := map[string]bool{}
	for _, container := range ours.Spec.Containers {
		for _, port := range container.Ports {
			names[*port.Name] = true
		}
	}
	var problems []Problem
	walk(o.field, reflect.ValueOf(theirs), func(at spot) {
		port, ok := at.value.Interface().(corev1.ContainerPort)
		if ok && names[port.Name] {
			problems = append(problems, Problem{
				at.path + ".name",
				"Freehold names a port " + port.Name + ": choose another name",
			})
		}
	})
	return problems
}
