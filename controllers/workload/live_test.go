package workload

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/revision"
)

var allKinds = sync.OnceValue(func() managedfields.TypeConverter {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme,
		rbacv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return applyconfigurations.NewTypeConverter(scheme)
})

// outside are the fields of an intent that its manager was not granted, but for what only says which object is meant.
func outside(t *testing.T, manager ownership.Manager, fields map[string]any) []string {
	t.Helper()
	object := &unstructured.Unstructured{Object: fields}
	typed, err := allKinds().ObjectToTyped(object)
	if err != nil {
		t.Fatal(err)
	}
	set, err := typed.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	meant := fieldpath.NewSet(
		fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
		fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"))
	grant, ok := contract.Freehold().
		Grant(manager, ownership.Object{GroupVersionKind: object.GroupVersionKind()}, object.GetName())
	if !ok {
		t.Fatalf("%s has no grant on %s %s", manager, object.GetKind(), object.GetName())
	}
	return grant.Outside(set.Difference(meant))
}

func TestScaledProxyKeepsAllButReplicas(t *testing.T) {
	server := read(t, "full")
	stated, err := sound(t, server, options).Proxy(7)
	if err != nil {
		t.Fatal(err)
	}
	live := managedfieldstest.NewTestFieldManager(allKinds(),
		schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	foreign := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "search-proxy", "namespace": "team-b", "labels": map[string]any{"theirs": "x"}},
	}
	for manager, fields := range map[string]map[string]any{"ours": fieldsOf(t, stated), "theirs": foreign} {
		if err := live.Apply(&unstructured.Unstructured{Object: fields}, manager, false); err != nil {
			t.Fatal(err)
		}
	}
	deployment := &appsv1.Deployment{}
	convert(t, live.Live(), deployment)
	got, err := ScaledProxy(deployment, Owner{}, "ours", 0)
	if err != nil {
		t.Fatal(err)
	}
	stated.Spec.WithReplicas(0)
	if diff := cmp.Diff(fieldsOf(t, stated), fieldsOf(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := ScaledProxy(deployment, Owner{}, "nobody", 0); err == nil ||
		!strings.Contains(err.Error(), "no pod template") {
		t.Errorf("of a manager that owns nothing: %v, want an error", err)
	}
}

func convert(t *testing.T, from, to any) {
	t.Helper()
	data, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
}

func TestProxyReplicas(t *testing.T) {
	three, none := int32(3), int32(0)
	for name, tc := range map[string]struct {
		replicas *int32
		release  int32
		suspend  bool
		deleting bool
		want     int32
	}{
		"unset":                       {nil, 0, false, false, 1},
		"unset, and the release's":    {nil, 2, false, false, 2},
		"set":                         {&three, 2, false, false, 3},
		"scaled to zero":              {&none, 2, false, false, 0},
		"suspended":                   {&three, 0, true, false, 0},
		"suspended, of the release's": {nil, 2, true, false, 0},
		"being deleted":               {&three, 2, false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := serverWith(t, "{proxy: {}}")
			server.Spec.Proxy.Replicas, server.Spec.Suspend = tc.replicas, tc.suspend
			if tc.deleting {
				server.DeletionTimestamp = &metav1.Time{}
			}
			if got := ProxyReplicas(server, tc.release); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// The longest name that the schema admits, and the largest number.
func TestNamesFit(t *testing.T) {
	server := strings.Repeat("a", 44)
	for name, limit := range map[string]int{
		BackendName(server):        52, // the StatefulSet's revision label adds 11
		HeadlessName(server):       63,
		Slot2.Name(server):         52,
		Slot2.HeadlessName(server): 63,
		ProxyName(server):          63,
		RunnerName(server):         253,
		RunConfigName(server, revision.Revision{Generation: 1<<63 - 1, Hash: strings.Repeat("0", 64)}): 253,
	} {
		if len(name) > limit {
			t.Errorf("%s has %d characters, at most %d fit", name, len(name), limit)
		}
	}
}

func TestProxyServiceLeavesOutReservedKeys(t *testing.T) {
	server := serverWith(t, `{proxy: {service: {
		labels: {app.kubernetes.io/version: "1", freehold.dev/server: other, example.com/a: b},
		annotations: {freehold.dev/workload-generation: "9"}}}}`)
	service := ProxyService(OwnerOf(server), server.Spec.Proxy)
	want := Labels("echo", ComponentProxy)
	want["example.com/a"] = "b"
	if diff := cmp.Diff(want, service.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(service.Annotations) > 0 {
		t.Errorf("annotations %v, want none", service.Annotations)
	}
}
