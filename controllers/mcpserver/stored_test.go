package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientac "k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/applyconfig"
	"github.com/freehold-dev/freehold/controllers/routes"
)

// stored is an API server of one namespace, in memory and with the field manager of the real one, that is read as a
// cache is: each read is a copy. It proves nothing about ownership; passes are measured on it.
type stored struct {
	client.Client // what a pass does not call
	tb            testing.TB
	objects       map[storedKey]client.Object
	applies       int
	// plans are those by the manager of the plan, of which a pass makes one at most.
	plans int
	// kept are those of ControllerRevisions.
	kept int
	// versions counts those that objects were given.
	versions int
	// refuse is the answer to an apply, nil if it is taken. That of a finalizer, or of its
	// release, is of kind "finalizer", that of status.active of kind "pointer", and a deletion of kind "deletion of KIND".
	refuse func(kind string) error
	// admit changes what an apply makes before it is stored, nil if nothing does.
	admit func(client.Object)
}

type storedKey struct{ kind, name string }

// schemas knows the kinds that are stored, and how to read them by schema.
var schemas = sync.OnceValues(func() (*runtime.Scheme, map[string]managedfields.TypeConverter) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	own := map[string]managedfields.TypeConverter{
		v1alpha1.SchemeGroupVersion.Group: applyconfig.NewTypeConverter(scheme),
		contract.HTTPRoute.Group:          routes.NewTypeConverter(),
	}
	return scheme, own
})

func newStored(tb testing.TB) *stored {
	tb.Helper()
	return &stored{tb: tb, objects: map[storedKey]client.Object{}}
}

func (s *stored) Scheme() *runtime.Scheme { scheme, _ := schemas(); return scheme }

func (s *stored) kind(obj runtime.Object) schema.GroupVersionKind {
	gvk, err := apiutil.GVKForObject(obj, s.Scheme())
	if err != nil {
		s.tb.Fatal(err)
	}
	return gvk
}

// put stores an object as it is, under a version of its own.
func (s *stored) put(obj client.Object) {
	gvk := s.kind(obj)
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	key := storedKey{gvk.Kind, obj.GetName()}
	if have := s.objects[key]; have != nil && have.GetResourceVersion() == obj.GetResourceVersion() {
		obj.SetResourceVersion(s.version())
	}
	s.objects[key] = obj
}

// version is the next one of an object.
func (s *stored) version() string {
	s.versions++
	return strconv.Itoa(1000 + s.versions)
}

func (s *stored) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	have, ok := s.objects[storedKey{s.kind(obj).Kind, key.Name}]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(have.DeepCopyObject()).Elem())
	return nil
}

// List lists pods, Events, and the metadata of a kind. All are of one server.
func (s *stored) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for key, have := range s.objects {
		switch list := list.(type) {
		case *corev1.PodList:
			if key.kind == "Pod" {
				list.Items = append(list.Items, *have.DeepCopyObject().(*corev1.Pod))
			}
		case *corev1.EventList:
			if key.kind == "Event" {
				list.Items = append(list.Items, *have.DeepCopyObject().(*corev1.Event))
			}
		case *metav1.PartialObjectMetadataList:
			if key.kind+"List" == list.Kind {
				part := metav1.PartialObjectMetadata{}
				have.DeepCopyObject().(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta).DeepCopyInto(&part.ObjectMeta)
				part.SetGroupVersionKind(have.GetObjectKind().GroupVersionKind())
				list.Items = append(list.Items, part)
			}
		}
	}
	return nil
}

func (s *stored) Apply(_ context.Context, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	options := client.ApplyOptions{}
	options.ApplyOptions(opts)
	return s.apply(ac, options.FieldManager, "")
}

func (s *stored) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	kind := s.kind(obj).Kind
	if s.refuse != nil {
		if err := s.refuse("deletion of " + kind); err != nil {
			return err
		}
	}
	delete(s.objects, storedKey{kind, obj.GetName()})
	return nil
}

func (s *stored) SubResource(string) client.SubResourceClient { return storedStatus{s: s} }

type storedStatus struct {
	client.SubResourceClient // what a pass does not call
	s                        *stored
}

func (s storedStatus) Apply(
	_ context.Context, ac runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	options := client.SubResourceApplyOptions{}
	options.ApplyOpts(opts)
	return s.s.apply(ac, options.FieldManager, "status")
}

// refuses is the answer to an apply by a manager, nil if it is taken.
func (s *stored) refuses(kind, manager string) error {
	switch {
	case s.refuse == nil || manager == "intruder":
		return nil
	case manager == string(contract.MCPServerFinalizer):
		kind = "finalizer"
	case manager == string(contract.MCPServerPlan):
		kind = "pointer"
	}
	return s.refuse(kind)
}

// apply merges by force, and answers with the object into ac.
func (s *stored) apply(ac runtime.ApplyConfiguration, manager, subresource string) error {
	data, err := json.Marshal(ac)
	if err != nil {
		return err
	}
	intent := &unstructured.Unstructured{}
	if err := intent.UnmarshalJSON(data); err != nil {
		return err
	}
	if err := s.refuses(intent.GetKind(), manager); err != nil {
		return err
	}
	made, err := s.Scheme().New(intent.GroupVersionKind())
	if err != nil {
		return err
	}
	obj := made.(client.Object)
	live := &unstructured.Unstructured{
		Object: map[string]any{"metadata": map[string]any{"name": intent.GetName(), "namespace": intent.GetNamespace()}},
	}
	if have, ok := s.objects[storedKey{intent.GetKind(), intent.GetName()}]; ok {
		if live.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(have); err != nil {
			return err
		}
	}
	live.SetGroupVersionKind(intent.GroupVersionKind())
	fields, err := fieldManager(intent.GroupVersionKind(), subresource)
	if err != nil {
		return err
	}
	merged, err := fields.Apply(live, intent, manager, true)
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(merged.(*unstructured.Unstructured).Object,
		obj); err != nil {
		return err
	}
	if s.admit != nil {
		s.admit(obj)
	}
	s.count(obj)
	s.applies++
	if intent.GetKind() == "ControllerRevision" {
		s.kept++
	}
	if manager == string(contract.MCPServerPlan) {
		s.plans++
	}
	obj.SetResourceVersion(s.version())
	obj.SetUID(types.UID(intent.GetKind() + "-" + obj.GetName()))
	s.put(obj)
	if data, err = json.Marshal(obj); err != nil {
		return err
	}
	return json.Unmarshal(data, ac)
}

// count counts the changes of a Deployment's spec, as the API server does.
func (s *stored) count(obj client.Object) {
	have, ok := s.objects[storedKey{"Deployment", obj.GetName()}].(*appsv1.Deployment)
	if now, is := obj.(*appsv1.Deployment); is && ok && !equality.Semantic.DeepEqual(now.Spec, have.Spec) {
		now.Generation = have.Generation + 1
	}
}

func fieldManager(gvk schema.GroupVersionKind, subresource string) (*managedfields.FieldManager, error) {
	scheme, own := schemas()
	converter, ok := own[gvk.Group]
	if !ok {
		converter = clientac.NewTypeConverter(scheme)
	}
	return managedfields.NewDefaultCRDFieldManager(converter, asIs{}, asIs{}, asIs{}, gvk, gvk.GroupVersion(), subresource,
		nil)
}

// asIs converts, defaults and creates nothing: every kind here has one version.
type asIs struct{}

func (asIs) Convert(_, _, _ any) error { return errors.New("nothing to convert") }

func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (asIs) Default(runtime.Object) {}

func (asIs) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	return object, nil
}
