package apply

import (
	"encoding/json"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/applyconfig"
)

const mine ownership.Manager = "tests.freehold.dev/mine"

var testConverter = sync.OnceValue(func() *Converter {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return NewConverter(scheme, map[string]managedfields.TypeConverter{
		"freehold.dev": applyconfig.NewTypeConverter(scheme),
	})
})

// yamlIntent is an apply configuration written as YAML.
func yamlIntent(t testing.TB, text string) runtime.ApplyConfiguration {
	t.Helper()
	return client.ApplyConfigurationFromUnstructured(object(t, text))
}

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	// Without the checks of an object: what an intent lacks is for freeze to say.
	if err := json.Unmarshal(data, &u.Object); err != nil {
		t.Fatal(err)
	}
	for key, v := range u.Object {
		u.Object[key] = integers(v)
	}
	return u
}

// integers makes numbers integers, as the decoders of the API do.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case map[string]any:
		for key, child := range v {
			v[key] = integers(child)
		}
	case []any:
		for i, child := range v {
			v[i] = integers(child)
		}
	}
	return v
}

func frozenIntent(t testing.TB, text string) intent {
	t.Helper()
	in, err := testConverter().freeze(yamlIntent(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// apiServer keeps one object as an API server does, without storage.
type apiServer struct {
	testing.TB
	fields managedfieldstest.TestFieldManager
}

func newAPIServer(t testing.TB, gvk schema.GroupVersionKind) *apiServer {
	t.Helper()
	c := testConverter()
	converter := c.builtin
	if own, ok := c.groups[gvk.Group]; ok {
		converter = own
	}
	return &apiServer{TB: t, fields: managedfieldstest.NewTestFieldManager(converter, gvk)}
}

// apply applies YAML by force.
func (s *apiServer) apply(manager, text string) {
	s.Helper()
	if err := s.fields.Apply(object(s.TB, text), manager, true); err != nil {
		s.Fatalf("applying as %s: %v", manager, err)
	}
}

// live is the object in its Go type.
func (s *apiServer) live(into client.Object) client.Object {
	s.Helper()
	data, err := json.Marshal(s.fields.Live())
	if err != nil {
		s.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		s.Fatal(err)
	}
	into.SetUID("uid")
	return into
}

// writerOf is a writer that can compare and not send.
func writerOf(manager ownership.Manager) *Writer {
	return New(nil, nil, testConverter(), ownership.Contract{}).As(manager)
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
