package routes

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// schema is that of what an HTTPRoute's writer states. Its lists are atomic in the CustomResourceDefinition:
// https://github.com/kubernetes-sigs/gateway-api/blob/main/apis/v1/httproute_types.go
const schema = `types:
- name: route
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: metadata, type: {namedType: metadata}}
    - {name: spec, type: {namedType: spec}}
    - {name: status, type: {namedType: any}}
- name: metadata
  map:
    fields:
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: annotations, type: {map: {elementType: {scalar: string}}}}
    - {name: finalizers, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
    - {name: managedFields, type: {namedType: any}}
    - name: ownerReferences
      type:
        list:
          elementType: {namedType: owner}
          elementRelationship: associative
          keys: [uid]
    elementType: {namedType: any}
- name: owner
  map:
    fields:
    - {name: uid, type: {scalar: string}, default: ""}
    elementType: {scalar: untyped}
    elementRelationship: atomic
- name: spec
  map:
    fields:
    - {name: parentRefs, type: {namedType: any}}
    - {name: hostnames, type: {namedType: any}}
    - {name: rules, type: {namedType: any}}
    elementType: {namedType: any}
- name: any
  scalar: untyped
  list: {elementType: {namedType: any}, elementRelationship: atomic}
  map: {elementType: {namedType: any}, elementRelationship: atomic}
`

// NewTypeConverter has the schema of HTTPRoutes.
func NewTypeConverter() managedfields.TypeConverter {
	parser, err := typed.NewParser(schema)
	if err != nil {
		panic(err) // a constant, which each test of the writer reads
	}
	return converter{parser.Type("route")}
}

type converter struct{ of typed.ParseableType }

// Older is said where HTTPRoutes lack a field that is stated, as timeouts: they are in the standard channel since v1.2.
func (converter) Older() string { return "install the Gateway API v1.2 or later" }

func (c converter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	return c.of.FromUnstructured(content, opts...)
}

func (c converter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	content, is := value.AsValue().Unstructured().(map[string]any)
	if !is {
		return nil, fmt.Errorf("an HTTPRoute that is no map")
	}
	return &unstructured.Unstructured{Object: content}, nil
}
