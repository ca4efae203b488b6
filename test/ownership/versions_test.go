package ownership

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// A scratch version of MCPServer calls spec.suspend paused.
const (
	scratch          = "v1alpha2"
	suspend, paused  = "suspend", "paused"
	suspended        = `spec: {image: i, suspend: true}`
	suspendedScratch = `spec: {image: i, paused: true}`
)

// versioned is a story about an MCPServer of which two versions are served.
type versioned struct {
	*live
	kit.AsIs
	types managedfields.TypeConverter
	// retired is a version that is not served any more.
	retired string
}

func versionedServer(t *testing.T) *versioned {
	t.Helper()
	root, err := kit.Root()
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(root, "config", "crd", "freehold.dev_mcpservers.yaml"))
	var crd apiextensionsv1.CustomResourceDefinition
	if err == nil {
		err = yaml.UnmarshalStrict(body, &crd)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := *crd.Spec.Versions[0].DeepCopy()
	next.Name, next.Storage = scratch, false
	fields := next.Schema.OpenAPIV3Schema.Properties["spec"].Properties
	fields[paused] = fields[suspend]
	delete(fields, suspend)
	crd.Spec.Versions = append(crd.Spec.Versions, next)
	schemas := map[string]*spec.Schema{}
	for _, v := range crd.Spec.Versions {
		api, err := builder.BuildOpenAPIV3(&crd, v.Name, builder.Options{})
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(schemas, api.Components.Schemas)
	}
	types, err := managedfields.NewTypeConverter(schemas, false)
	if err != nil {
		t.Fatal(err)
	}
	v := &versioned{live: server(t, "echo"), types: types}
	v.in(contract.MCPServer.Version)
	return v
}

// in has the following requests be of a version: the API server converts what is stored to it first.
func (v *versioned) in(version string) {
	v.Helper()
	v.kind.Version = version
	object, err := v.ConvertToVersion(v.object, v.kind.GroupVersion())
	if err != nil {
		v.Fatal(err)
	}
	v.object = object.(*unstructured.Unstructured)
	manager := func(subresource string, resets ...string) *managedfields.FieldManager {
		set := &fieldpath.Set{}
		for _, field := range resets {
			set.Insert(fieldpath.MakePathOrDie(field))
		}
		filters := map[fieldpath.APIVersion]*fieldpath.Set{}
		for _, name := range []string{contract.MCPServer.Version, scratch} {
			filters[fieldpath.APIVersion(v.kind.Group+"/"+name)] = set
		}
		fm, err := managedfields.NewDefaultCRDFieldManager(v.types, v, v, v, v.kind, v.kind.GroupVersion(), subresource,
			fieldpath.NewExcludeFilterSetMap(filters))
		if err != nil {
			v.Fatal(err)
		}
		return fm
	}
	v.main, v.status = manager("", "status"), manager("status", "metadata", "spec")
}

// ConvertToVersion is what a conversion webhook does.
func (v *versioned) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	object := in.(*unstructured.Unstructured).DeepCopy()
	kind, ok := to.KindForGroupVersionKinds(
		[]schema.GroupVersionKind{
			{Group: v.kind.Group, Version: contract.MCPServer.Version, Kind: v.kind.Kind},
			{Group: v.kind.Group, Version: scratch, Kind: v.kind.Kind},
		})
	if !ok || kind.Version == v.retired {
		return nil, runtime.NewNotRegisteredErrForTarget("test", nil, to)
	}
	object.SetGroupVersionKind(kind)
	from, field := suspend, paused
	if kind.Version == contract.MCPServer.Version {
		from, field = paused, suspend
	}
	if value, stated, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", from); stated {
		unstructured.RemoveNestedField(object.Object, "spec", from)
		return object, unstructured.SetNestedField(object.Object, value, "spec", field)
	}
	return object, nil
}

// owned are the fields of each manager, after the version in which it wrote them.
func (v *versioned) owned() map[string][]string {
	all := map[string][]string{}
	for _, e := range v.object.GetManagedFields() {
		all[e.Manager] = append(all[e.Manager], e.APIVersion+" "+e.FieldsV1.GetRawString())
	}
	return all
}

func grown(t *testing.T) *versioned {
	t.Helper()
	v := versionedServer(t)
	v.Apply(git, suspended)
	v.Apply(finalizer, held())
	v.ApplyStatus(claimer, claimed(1, "h"))
	return v
}

// Each entry stays in the version that its manager wrote in, until that manager
// writes in another: then it has one, and no conflict with itself.
func TestEachManagerMovesToAnotherVersionByItself(t *testing.T) {
	v := grown(t)
	before := v.owned()
	v.in(scratch)
	v.Has(true, "spec", paused)
	v.Apply("labeller", `metadata: {labels: {seen: "yes"}}`)
	v.Apply(git, suspendedScratch)
	v.Owns(git, "spec."+paused)
	if after := v.owned(); len(after[git]) != 1 || !slices.Equal(after[finalizer], before[finalizer]) ||
		!slices.Equal(after[claimer], before[claimer]) {
		t.Errorf("before %s, after %s", before, after)
	}
	v.Contended("neighbour", `spec: {paused: false}`, ".spec.paused")

	// Who goes on in the old version reads what the new one says, and has nothing to write.
	v.in(contract.MCPServer.Version)
	v.Has(true, "spec", suspend)
	if v.Apply(finalizer, held()) || v.ApplyStatus(claimer, claimed(1, "h")) {
		t.Error("the same again, in the version that it was, is a write")
	}
	v.Contended("neighbour", `spec: {suspend: false}`, ".spec.paused") // as its holder calls it
	v.Apply(git, `spec: {image: i}`)
	v.HasNot("spec", suspend)
	v.in(scratch)
	v.HasNot("spec", paused)
}

// An update is noted for each version.
func TestAnUpdateIsNotedInItsVersion(t *testing.T) {
	v := grown(t)
	label := func(name string) func(map[string]any) {
		return func(o map[string]any) {
			_ = unstructured.SetNestedField(o, "x", "metadata", "labels", name)
		}
	}
	v.Update(person, label("one"))
	v.in(scratch)
	v.Update(person, label("two"))
	if owned := v.owned()[person]; len(owned) != 2 {
		t.Errorf("%s owns %s", person, owned)
	}
}

// The entries of a version that is served no more go with the next write, and nobody
// says so: what they owned stays, as nobody's.
func TestAVersionThatIsServedNoMoreTakesItsEntriesAlong(t *testing.T) {
	v := grown(t)
	v.in(scratch)
	v.Apply(git, suspendedScratch)
	v.retired = contract.MCPServer.Version
	v.Apply("labeller", `metadata: {labels: {seen: "yes"}}`)
	v.Owns(git, "spec."+paused)
	v.OwnsNothing(finalizer)
	v.OwnsNothing(claimer)
	if !slices.Contains(v.object.GetFinalizers(), contract.Finalizer) {
		t.Error("the finalizer went with its owner")
	}
	for _, e := range v.object.GetManagedFields() {
		if e.Operation == metav1.ManagedFieldsOperationApply && e.APIVersion != v.kind.GroupVersion().String() {
			t.Errorf("%s owns something in %s", e.Manager, e.APIVersion)
		}
	}
}
