package apply

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// removableLeftovers returns the leftovers, or nothing where admission puts them back with each write.
func (w *Writer) removableLeftovers(
	live client.Object, in intent, grant ownership.Grant, k memoryKey,
) (*fieldpath.Set, error) {
	left := leftovers(live, in, grant)
	last, ok := w.applier.memory.get(k)
	if left.Empty() || !ok || !last.leftoverReturns || last.uid != live.GetUID() {
		return left, nil
	}
	same, err := w.applier.memory.lastIntentIs(k, in)
	if same {
		left = fieldpath.NewSet()
	}
	return left, err
}

// leftovers are the defaults of a pod template that belong to nobody and change what the intent means: the deprecated
// name of the account, and the emptyDir of a volume that has another source now. An object has them if its first
// intent did not state these fields.
func leftovers(live client.Object, in intent, grant ownership.Grant) *fieldpath.Set {
	left := fieldpath.NewSet()
	pod := podSpec(live)
	stated, found, err := unstructured.NestedFieldNoCopy(in.content, "spec", "template", "spec")
	spec, is := stated.(map[string]any)
	if pod == nil || !found || err != nil || !is {
		return left
	}
	insert := func(parts ...any) {
		path := fieldpath.MakePathOrDie(append([]any{"spec", "template", "spec"}, parts...)...)
		if grant.Covers(path) {
			left.Insert(path)
		}
	}
	if _, states := spec["serviceAccountName"]; !states && pod.ServiceAccountName != "" {
		insert("serviceAccountName")
		insert("serviceAccount")
	}
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		name, _ := volume["name"].(string)
		stays := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name && v.EmptyDir != nil })
		if _, states := volume["emptyDir"]; stays && !states {
			insert("volumes", fieldpath.KeyByFields("name", name), "emptyDir")
		}
	}
	return left
}

func podSpec(object client.Object) *corev1.PodSpec {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	}
	return nil
}
