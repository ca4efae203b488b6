package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientac "k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Converter has the schemas of the applied kinds, and computes field sets as the API server does.
type Converter struct {
	scheme  *runtime.Scheme
	builtin managedfields.TypeConverter
	groups  map[string]managedfields.TypeConverter
}

// NewConverter returns a Converter for the built-in kinds of scheme and, by API group, for kinds with generated apply
// configurations: pass NewTypeConverter of their package.
func NewConverter(scheme *runtime.Scheme, groups map[string]managedfields.TypeConverter) *Converter {
	return &Converter{scheme: scheme, builtin: clientac.NewTypeConverter(scheme), groups: groups}
}

// live returns a live object as a typed value of gvk. Objects that were read without a cache lack their kind, and
// list items may be duplicates that older validation accepted; the API server allows both too.
func (c *Converter) live(gvk schema.GroupVersionKind, obj runtime.Object) (*typed.TypedValue, error) {
	return c.typed(gvk, obj, typed.AllowDuplicates)
}

func (c *Converter) typed(
	gvk schema.GroupVersionKind, obj runtime.Object, opts ...typed.ValidationOptions,
) (*typed.TypedValue, error) {
	if obj.GetObjectKind().GroupVersionKind() != gvk {
		obj = obj.DeepCopyObject()
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
	converter := c.builtin
	if own, ok := c.groups[gvk.Group]; ok {
		converter = own
	}
	value, err := converter.ObjectToTyped(obj, opts...)
	if err != nil {
		return nil, fmt.Errorf("reading %s by its schema: %w", gvk.Kind, err)
	}
	return value, nil
}
