package ownership

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	contract "github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// server is a story about an MCPServer, by the schema of its CRD.
func server(t *testing.T, name string) *live {
	t.Helper()
	converter, err := customTypes()
	if err != nil {
		t.Fatal(err)
	}
	return newLive(t, converter, contract.MCPServer.GroupVersionKind, name)
}

// child is a story about an object of a built-in kind.
func child(t *testing.T, kind contract.Object, name string) *live {
	t.Helper()
	return newLive(t, builtinTypes(), kind.GroupVersionKind, name)
}

var customTypes = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	root, err := kit.Root()
	if err != nil {
		return nil, err
	}
	body, err := os.ReadFile(filepath.Join(root, "config", "crd", "freehold.dev_mcpservers.yaml"))
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
	return managedfields.NewTypeConverter(api.Components.Schemas, false)
})

var builtinTypes = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(kit.Scheme())
})

// newLive builds the field managers as kube-apiserver does, with the fields
// that its strategies reset: the main resource does not write status, and the
// status subresource writes nothing else.
func newLive(t *testing.T, converter managedfields.TypeConverter, kind schema.GroupVersionKind, name string) *live {
	t.Helper()
	manager := func(subresource string, resets ...string) *managedfields.FieldManager {
		set := &fieldpath.Set{}
		for _, field := range resets {
			set.Insert(fieldpath.MakePathOrDie(field))
		}
		fm, err := managedfields.NewDefaultCRDFieldManager(converter, asIs{}, asIs{}, asIs{}, kind, kind.GroupVersion(), subresource,
			fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
				fieldpath.APIVersion(kind.GroupVersion().String()): set,
			}))
		if err != nil {
			t.Fatal(err)
		}
		return fm
	}
	l := &live{T: t, kind: kind, main: manager("", "status"), status: manager("status", "metadata", "spec")}
	l.object = l.nothing(name)
	return l
}

// asIs converts, defaults and creates nothing: every kind here has one version
// and every object is unstructured.
type asIs struct{}

func (asIs) Convert(_, _, _ any) error { return errors.New("nothing to convert") }

func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (asIs) Default(runtime.Object) {}

func (asIs) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, nil
}
