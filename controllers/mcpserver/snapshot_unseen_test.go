package mcpserver

import (
	"context"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// labelled is a cache, which holds of children what has our label.
type labelled struct{ client.Reader }

func (l labelled) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := l.Reader.Get(ctx, key, obj, opts...)
	switch obj.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *networkingv1.NetworkPolicy:
		if err == nil && obj.GetLabels()[workload.LabelServer] == "" {
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		}
	}
	return err
}

// unlabelled takes our label off what stands.
func unlabelled(t *testing.T, s *stored) {
	t.Helper()
	for _, key := range []storedKey{{"Deployment", "echo-proxy"}, {"StatefulSet", "echo-backend"}} {
		object := s.objects[key]
		labels := object.GetLabels()
		delete(labels, workload.LabelServer)
		object.SetLabels(labels)
	}
}

// Calls end first, and the backend goes before the server, also where a label that somebody took off hides them.
func TestAServerGoesInOrderWhereALabelIsGone(t *testing.T) {
	r, s := settled(t)
	r.reader.Cache = labelled{s}
	s.put(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "echo-backend", UID: "policy",
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(read(s), v1alpha1.SchemeGroupVersion.WithKind("MCPServer")),
		},
	}})
	unlabelled(t, s)
	server := read(s)
	server.DeletionTimestamp = new(metav1.NewTime(noon))
	s.put(server)
	pass := func() {
		t.Helper()
		result, err := r.Reconcile(t.Context(), theServer)
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter == 0 && len(read(s).Finalizers) > 0 {
			t.Error("nothing wakes the next pass")
		}
	}
	pass()
	if n := ptr.Deref(s.objects[storedKey{"Deployment", "echo-proxy"}].(*appsv1.Deployment).Spec.Replicas, 1); n != 0 {
		t.Errorf("%d proxies are asked for", n)
	}
	delete(s.objects, storedKey{"Pod", "proxy"})
	pass()
	if s.objects[storedKey{"StatefulSet", "echo-backend"}] != nil || len(read(s).Finalizers) == 0 {
		t.Fatal("the backend is not deleted before the server goes")
	}
	pass()
	if s.objects[storedKey{"NetworkPolicy", "echo-backend"}] == nil {
		t.Error("the policy goes before the backend's pods")
	}
	backend := s.objects[storedKey{"Pod", "backend"}].(*corev1.Pod)
	backend.Status.Phase = corev1.PodSucceeded
	pass()
	if s.objects[storedKey{"NetworkPolicy", "echo-backend"}] != nil {
		t.Error("the policy is left")
	}
}

// Nor is a backend taken for stopped that runs on.
func TestASuspendedServerStopsABackendThatLostItsLabel(t *testing.T) {
	r, s := settled(t)
	r.reader.Cache = labelled{s}
	unlabelled(t, s)
	edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Suspend = true })
	for range 3 {
		if _, err := r.Reconcile(t.Context(), theServer); err != nil {
			t.Fatal(err)
		}
		delete(s.objects, storedKey{"Pod", "proxy"})
	}
	if n := ptr.Deref(s.objects[storedKey{"StatefulSet", "echo-backend"}].(*appsv1.StatefulSet).Spec.Replicas, 1); n != 0 {
		t.Errorf("%d backends are asked for", n)
	}
}

// counting counts what is read of the API server, by type.
type counting struct {
	client.Reader
	reads map[string]int
}

func (c counting) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.reads[reflect.TypeOf(obj).Elem().Name()]++
	return c.Reader.Get(ctx, key, obj, opts...)
}

// A deletion has a pass for each pod and each report: what stands before the backend is asked for at its end.
func TestADeletionReadsLiveAtItsEnd(t *testing.T) {
	r, s := settled(t)
	reads := map[string]int{}
	r.reader.Live = counting{s, reads}
	server := read(s)
	server.DeletionTimestamp = new(metav1.NewTime(noon))
	s.put(server)
	passes := func(n int, want map[string]int) {
		t.Helper()
		clear(reads)
		for range n {
			if _, err := r.Reconcile(t.Context(), theServer); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, reads); diff != "" {
			t.Errorf("reads of the API server (-want +got):\n%s", diff)
		}
	}
	passes(3, map[string]int{})
	delete(s.objects, storedKey{"Pod", "proxy"})
	passes(1, map[string]int{})
	passes(1, map[string]int{"StatefulSet": 1, "NetworkPolicy": 1})
}
