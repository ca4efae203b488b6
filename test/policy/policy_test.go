package policy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace  = "default"
	generation = "freehold.dev/workload-generation"
	breakGlass = "freehold.dev/break-glass-generation"
	managedBy  = "app.kubernetes.io/managed-by"
)

// kinds are those that carry a workload generation, by how an object of ours begins.
var kinds = map[string]string{
	"StatefulSet": "{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 0, " + pods + "}}",
	"Deployment":  "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, " + pods + "}}",
	"Service":     "{apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}}",
	"ConfigMap":   "{apiVersion: v1, kind: ConfigMap, data: {a: b}, immutable: true}",
}

// workload is an object of ours.
func workload(kind, name, number string) *unstructured.Unstructured {
	object := object(kinds[kind])
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetLabels(map[string]string{managedBy: "freehold"})
	if number != "" {
		object.SetAnnotations(map[string]string{generation: number})
	}
	return object
}

// body is a merge patch; null removes a field.
type body map[string]any

func annotate(number any) body {
	return body{"metadata": body{"annotations": body{generation: number}}}
}

func label(value any) body {
	return body{"metadata": body{"labels": body{managedBy: value}}}
}

func patch(ctx context.Context, object client.Object, change body, subresource ...string) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	target := object.DeepCopyObject().(client.Object)
	raw := client.RawPatch(types.MergePatchType, text)
	if len(subresource) > 0 {
		return admin.SubResource(subresource[0]).Patch(ctx, target, raw)
	}
	return admin.Patch(ctx, target, raw)
}

// born makes an object for one test.
func born(t *testing.T, kind, number string) *unstructured.Unstructured {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ",", "", "'", "").Replace(t.Name()))
	object := workload(kind, name[max(0, len(name)-50):], number)
	object.SetName(strings.Trim(object.GetName(), "-"))
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	return object
}

func each(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

func TestRefused(t *testing.T) {
	const startOver = "To start over, delete the object"
	for name, tc := range map[string]struct {
		change body
		says   []string
	}{
		"going back": {
			annotate("9"),
			[]string{"is 10 and may not go back to 9", "write that content into the MCPServer", startOver},
		},
		"disappearing": {annotate(nil), []string{"is 10 and may not disappear", startOver}},
		"broken other glass": {
			body{"metadata": body{"annotations": body{generation: "9", breakGlass: "8"}}},
			[]string{"may not go back to 9", breakGlass + `: "9"`},
		},
		"broken glass, gone": {
			body{"metadata": body{"annotations": body{generation: nil, breakGlass: ""}}},
			[]string{"may not disappear"},
		},
		"all annotations":    {body{"metadata": body{"annotations": nil}}, []string{"may not disappear"}},
		"no number":          {annotate("ten"), []string{`may not become "ten", which is no number`}},
		"a negative number":  {annotate("-11"), []string{`may not become "-11", which is no number`}},
		"beyond all numbers": {annotate("99999999999999999999"), []string{"which is no number"}},
		"label gone": {
			label(nil),
			[]string{"label app.kubernetes.io/managed-by=freehold may not be removed", "make a copy under another name"},
		},
		"label of another": {label("Helm"), []string{"may not be removed"}},
		"label gone and back": {
			body{"metadata": body{"labels": nil, "annotations": body{generation: "9"}}},
			[]string{"may not go back to 9"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, kind string) {
				object := born(t, kind, "10")
				refused(t, patch(t.Context(), object, tc.change), tc.says...)
				unchanged(t, object)
			})
		})
	}
}

// TestRefusedToAppliers holds the same for server-side apply and for PUT.
func TestRefusedToAppliers(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		object := born(t, kind, "10")
		stale := workload(kind, object.GetName(), "9")
		err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(stale), client.FieldOwner("somebody"),
			client.ForceOwnership)
		refused(t, err, "may not go back to 9")

		// Without a resourceVersion a PUT replaces what is there.
		refused(t, admin.Update(t.Context(), stale), "may not go back to 9")
	})
}

// unchanged holds that what identifies an object of ours is as it was born.
func unchanged(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	live := object.DeepCopy()
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), live); err != nil {
		t.Fatal(err)
	}
	if live.GetAnnotations()[generation] != object.GetAnnotations()[generation] ||
		live.GetLabels()[managedBy] != object.GetLabels()[managedBy] {
		t.Errorf("labels and annotations are %v and %v", live.GetLabels(), live.GetAnnotations())
	}
}

func refused(t *testing.T, err error, says ...string) {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Fatalf("the answer is %v, want a refusal", err)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the refusal does not say %q: %v", text, err)
		}
	}
}

func TestLetIn(t *testing.T) {
	for name, tc := range map[string]struct {
		before string
		change body
	}{
		"growing":             {"10", annotate("11")},
		"growing by a digit":  {"9", annotate("10")},
		"staying":             {"10", annotate("10")},
		"behind broken glass": {"10", body{"metadata": body{"annotations": body{generation: "9", breakGlass: "9"}}}},
		// What a kind does not know is dropped.
		"content":              {"10", body{"spec": body{"minReadySeconds": 3, "sessionAffinity": "ClientIP"}}},
		"foreign label":        {"10", body{"metadata": body{"labels": body{"example.com/team": "a"}}}},
		"foreign annotation":   {"10", body{"metadata": body{"annotations": body{"example.com/note": "a"}}}},
		"the first number":     {"", annotate("1")},
		"repair of no number":  {"ten", annotate("1")},
		"repair of a negative": {"-1", annotate("1")},
		"label without number": {"", label(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, kind string) {
				if err := patch(t.Context(), born(t, kind, tc.before), tc.change); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestForeignObjects holds that an object without our label is not judged,
// also when somebody puts the label on it with a number of his own.
func TestForeignObjects(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		object := workload(kind, "foreign", "10")
		object.SetLabels(nil)
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		change := label("freehold")
		change["metadata"].(body)["annotations"] = body{generation: "9"}
		for _, change := range []body{annotate("9"), annotate(nil), annotate("10"), change} {
			if err := patch(t.Context(), object, change); err != nil {
				t.Error(err)
			}
		}
		if err := admin.Delete(t.Context(), object); err != nil {
			t.Error(err)
		}
	})
}

// TestControllersAreLeftAlone holds that the writes which Kubernetes' own
// controllers, autoscalers and the garbage collector make are let in.
func TestControllersAreLeftAlone(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		object := born(t, kind, "10")
		status := body{
			"replicas": 0, "observedGeneration": 1,
			"conditions": []body{{
				"type": "A", "status": "True", "reason": "R", "message": "m",
				"lastTransitionTime": "2026-01-01T00:00:00Z",
			}},
		}
		if err := patch(t.Context(), object, body{"status": status}, "status"); err != nil && kind != "ConfigMap" {
			t.Errorf("writing the status: %v", err)
		}
		if err := patch(t.Context(), object, body{"spec": body{"replicas": 3}}, "scale"); err != nil &&
			object.GetAPIVersion() == "apps/v1" {
			t.Errorf("scaling: %v", err)
		}
		if err := patch(t.Context(), object, body{"metadata": body{"finalizers": []string{"example.com/hold"}}}); err != nil {
			t.Errorf("adding a finalizer: %v", err)
		}
		if err := admin.Delete(t.Context(), object,
			client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Errorf("deleting: %v", err)
		}
		if err := patch(t.Context(), object, body{"metadata": body{"finalizers": nil}}); err != nil {
			t.Errorf("removing a finalizer: %v", err)
		}
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopy())
		if !apierrors.IsNotFound(err) {
			t.Errorf("after its deletion a GET says %v", err)
		}
	})
}

// TestStartingOver holds what the messages promise: a deleted object may be born with any number.
func TestStartingOver(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		object := born(t, kind, "10")
		if err := admin.Delete(t.Context(), object,
			client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
		if err := admin.Create(t.Context(), workload(kind, object.GetName(), "1")); err != nil {
			t.Error(err)
		}
	})
}
