package ownership

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var scaleKind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

// Scale writes spec.replicas through the scale subresource, as an autoscaler
// does, with the record of owners carried over and back as the API server
// carries it.
func (l *live) Scale(manager string, replicas int64) {
	l.Helper()
	version := l.kind.GroupVersion()
	handler := managedfields.NewScaleHandler(l.object.GetManagedFields(), version,
		managedfields.ResourcePathMappings{version.String(): fieldpath.MakePathOrDie("spec", "replicas")})
	entries, err := handler.ToSubresource()
	if err != nil {
		l.Fatalf("scaling as %s: %v", manager, err)
	}
	before := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": l.at("spec", "replicas")}}}
	before.SetGroupVersionKind(scaleKind)
	before.SetName(l.object.GetName())
	before.SetManagedFields(entries)
	after := before.DeepCopy()
	after.Object["spec"] = map[string]any{"replicas": replicas}

	// A Scale is one number, so the types that are deduced from it are right.
	fm, err := managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), asIs{}, asIs{}, asIs{}, scaleKind, scaleKind.GroupVersion(), "scale", nil)
	if err != nil {
		l.Fatalf("scaling as %s: %v", manager, err)
	}
	scaled, err := fm.Update(before, after, manager)
	if err != nil {
		l.Fatalf("scaling as %s: %v", manager, err)
	}
	entries, err = handler.ToParent(scaled.(*unstructured.Unstructured).GetManagedFields())
	if err != nil {
		l.Fatalf("scaling as %s: %v", manager, err)
	}
	next := l.object.DeepCopy()
	if err := unstructured.SetNestedField(next.Object, replicas, "spec", "replicas"); err != nil {
		l.Fatalf("scaling as %s: %v", manager, err)
	}
	next.SetManagedFields(entries)
	l.keep(next)
}
