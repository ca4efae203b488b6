package kit

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
)

// FieldManagers are what kube-apiserver tracks the ownership of one kind with: its own code, without a server. They
// know no defaults, no admission and no validation.
type FieldManagers struct {
	// Main is of the main resource, Status of the status subresource.
	Main, Status *managedfields.FieldManager
	// Types tells what an object of the kind means to them.
	Types managedfields.TypeConverter

	kind schema.GroupVersionKind
}

// FieldManagersOf are those of a built-in kind, or of one of Freehold's by the schema of its CRD. They are built as
// kube-apiserver builds them, with the fields that its strategies reset: the main resource does not write status, and
// the status subresource writes nothing else.
func FieldManagersOf(kind schema.GroupVersionKind) (*FieldManagers, error) {
	types := builtinTypes()
	if kind.Group == contract.MCPServer.Group {
		var err error
		if types, err = customTypes(); err != nil {
			return nil, fmt.Errorf("reading the CRD: %w", err)
		}
	}
	m := &FieldManagers{kind: kind, Types: types}
	var err error
	if m.Main, err = m.manager("", "status"); err != nil {
		return nil, err
	}
	m.Status, err = m.manager("status", "metadata", "spec")
	return m, err
}

func (m *FieldManagers) manager(subresource string, resets ...string) (*managedfields.FieldManager, error) {
	set := &fieldpath.Set{}
	for _, field := range resets {
		set.Insert(fieldpath.MakePathOrDie(field))
	}
	version := m.kind.GroupVersion()
	return managedfields.NewDefaultCRDFieldManager(m.Types, AsIs{}, AsIs{}, AsIs{}, m.kind, version, subresource,
		fieldpath.NewExcludeFilterSetMap(
			map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(version.String()): set}))
}

// Nothing is the object of a name before it is made.
func (m *FieldManagers) Nothing(name string) *unstructured.Unstructured {
	object := nothing(m.kind)
	object.SetName(name)
	return object
}

// nothing is an object without content: of a built-in kind what its Go type has
// of itself, such as an empty spec, which so nobody owns who makes one.
func nothing(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if made, err := builtins.New(kind); err == nil {
		if content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made); err == nil {
			object.Object = content
		}
	}
	object.SetGroupVersionKind(kind)
	return object
}

var scaleKind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

// Scale returns object after manager wrote spec.replicas through the scale subresource, with the record of owners
// carried over and back as the API server carries it.
func (m *FieldManagers) Scale(
	object *unstructured.Unstructured, manager string, replicas int64,
) (*unstructured.Unstructured, error) {
	version := m.kind.GroupVersion()
	handler := managedfields.NewScaleHandler(object.GetManagedFields(), version,
		managedfields.ResourcePathMappings{version.String(): fieldpath.MakePathOrDie("spec", "replicas")})
	entries, err := handler.ToSubresource()
	if err != nil {
		return nil, err
	}
	was, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil {
		return nil, err
	}
	before := scaleOf(object, was)
	before.SetManagedFields(entries)
	after := scaleOf(object, replicas)
	after.SetManagedFields(entries)

	// A Scale is one number, so the types that are deduced from it are right.
	fm, err := managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), AsIs{}, AsIs{}, AsIs{},
		scaleKind, scaleKind.GroupVersion(), "scale", nil)
	if err != nil {
		return nil, err
	}
	scaled, err := fm.Update(before, after, manager)
	if err != nil {
		return nil, err
	}
	entries, err = handler.ToParent(scaled.(*unstructured.Unstructured).GetManagedFields())
	if err != nil {
		return nil, err
	}
	next := object.DeepCopy()
	if err := unstructured.SetNestedField(next.Object, replicas, "spec", "replicas"); err != nil {
		return nil, err
	}
	next.SetManagedFields(entries)
	return next, nil
}

// scaleOf is the Scale of an object. It leaves out replicas that are 0, as its Go
// type does, so that who scales to 0 owns nothing.
func scaleOf(object *unstructured.Unstructured, replicas int64) *unstructured.Unstructured {
	spec := map[string]any{}
	if replicas != 0 {
		spec["replicas"] = replicas
	}
	scale := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	scale.SetGroupVersionKind(scaleKind)
	scale.SetName(object.GetName())
	scale.SetUID(object.GetUID())
	return scale
}

var customTypes = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "*.yaml"))
	if err != nil {
		return nil, err
	}
	schemas := map[string]*spec.Schema{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(body, &crd); err != nil {
			return nil, err
		}
		api, err := builder.BuildOpenAPIV3(&crd, contract.MCPServer.Version, builder.Options{})
		if err != nil {
			return nil, err
		}
		maps.Copy(schemas, api.Components.Schemas)
	}
	return managedfields.NewTypeConverter(schemas, false)
})

var builtinTypes = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(builtins)
})

// builtins are the kinds of which an object has a Go type in kube-apiserver.
var builtins = clientgoscheme.Scheme

// AsIs converts, defaults and creates nothing: every kind here has one version and every object is unstructured.
type AsIs struct{}

// Convert is not asked for.
func (AsIs) Convert(_, _, _ any) error { return errors.New("nothing to convert") }

// ConvertToVersion converts nothing.
func (AsIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// ConvertFieldLabel converts none.
func (AsIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default sets none.
func (AsIs) Default(runtime.Object) {}

// New is an object without content.
func (AsIs) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	return nothing(kind), nil
}
