package policy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

// TestTheBackendIsLeftToTheOperator holds that the garbage collector alone is
// refused a backend, in foreground deletion alone, and its NetworkPolicy always.
func TestTheBackendIsLeftToTheOperator(t *testing.T) {
	server := object(kit.Server("kept", "registry.example.com/echo:1", ""))
	server.SetNamespace(namespace)
	if err := admin.Create(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	backend, closes := workload("StatefulSet", "kept-backend", "1"),
		object("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: {}}}")
	closes.SetNamespace(namespace)
	closes.SetName("kept-backend")
	owner := []metav1.OwnerReference{
		{APIVersion: "freehold.dev/v1alpha1", Kind: "MCPServer", Name: "kept", UID: server.GetUID(), Controller: new(true)},
	}
	component := map[string]string{managedBy: "freehold", "app.kubernetes.io/component": "backend"}
	collector, background, foreground := as(t, "kube-system", "generic-garbage-collector"),
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		edit   func(*unstructured.Unstructured)
		by     client.Client
		policy metav1.DeletionPropagation
		says   string
	}{
		"the garbage collector, in the foreground": {
			backend, nil, collector, foreground,
			"when the calls of its proxies have ended",
		},
		"the garbage collector, in the background": {backend, nil, collector, background, ""},
		"a person, in the foreground":              {backend, nil, admin, foreground, ""},
		"what has no server": {
			backend,
			func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }, collector, foreground, "",
		},
		"what is not ours": {
			backend, func(o *unstructured.Unstructured) { o.SetLabels(nil) },
			collector, foreground, "",
		},
		"the namespace controller, in the namespace": {
			backend, nil, as(t, "kube-system", "namespace-controller"), background,
			"",
		},
		"a policy, the garbage collector": {closes, nil, collector, background, "when the backend's pods have"},
		"a policy, a person":              {closes, nil, admin, background, ""},
		"a policy that has no server": {
			closes, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) },
			collector, background, "",
		},
		"a policy that is not ours": {
			closes, func(o *unstructured.Unstructured) { o.SetLabels(nil) }, collector,
			background, "",
		},
		"a policy, the namespace controller": {closes, nil, as(t, "kube-system", "namespace-controller"), background, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := tc.object.DeepCopy()
			o.SetOwnerReferences(owner)
			o.SetLabels(component)
			if tc.edit != nil {
				tc.edit(o)
			}
			if err := admin.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			err := tc.by.Delete(t.Context(), o.DeepCopy(), client.PropagationPolicy(tc.policy), client.DryRunAll)
			if tc.says != "" {
				refused(t, err, tc.says)
			} else if err != nil {
				t.Error(err)
			}
			if err := admin.Delete(t.Context(), o, client.PropagationPolicy(background)); err != nil {
				t.Error(err)
			}
		})
	}
	if err := admin.Delete(t.Context(), server); err != nil {
		t.Error(err)
	}
}

// Where all controllers have one name, that of the namespace controller is among them.
func TestAPolicyGoesWithItsNamespace(t *testing.T) {
	space := object("{apiVersion: v1, kind: Namespace, metadata: {name: goes}}")
	closes := object("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: kept-backend, namespace: " +
		"goes}, spec: {podSelector: {}}}")
	closes.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "freehold.dev/v1alpha1", Kind: "MCPServer", Name: "kept", UID: "kept", Controller: new(true)},
	})
	closes.SetLabels(map[string]string{managedBy: "freehold", "app.kubernetes.io/component": "backend"})
	// Pods go first, and this one stays (https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces).
	pod := object("{apiVersion: v1, kind: Pod, metadata: {name: stays, namespace: goes, finalizers: " +
		"[example.com/stays]}, spec: {containers: [{name: c, image: none}]}}")
	controllers := clientOf(t, plane.As("system:kube-controller-manager", "system:masters"))
	for _, o := range []*unstructured.Unstructured{space, closes, pod} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, controllers.Delete(t.Context(), closes.DeepCopy(), client.DryRunAll), "when the backend's pods have")
	if err := admin.Delete(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	// The garbage collector may have been first.
	if err := client.IgnoreNotFound(controllers.Delete(t.Context(), closes.DeepCopy(), client.DryRunAll)); err != nil {
		t.Error(err)
	}
	if err := patch(t.Context(), pod, body{"metadata": body{"finalizers": nil}}); err != nil {
		t.Error(err)
	}
}
