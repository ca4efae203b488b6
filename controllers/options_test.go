package controllers

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// What is cached the process may watch, by the contract, and nothing else: a
// kind that is added here is a row there.
func TestTheCacheHoldsWhatTheContractLetsTheProcessWatch(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	options, err := CacheOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	cached := map[string]bool{"mcpservers.freehold.dev": true} // what the controller is for
	for kind := range options.ByObject {
		gvk, err := apiutil.GVKForObject(kind, scheme)
		if err != nil {
			t.Fatal(err)
		}
		cached[ownership.Object{GroupVersionKind: gvk}.Resource()+"."+gvk.Group] = true
	}
	watched := map[string]bool{}
	for _, right := range ownership.Freehold().Rights {
		if right.Identity == ownership.IdentityOperator && slices.Contains(right.Verbs, "watch") {
			watched[right.Resource+"."+right.Group] = true
		}
	}
	if !maps.Equal(cached, watched) {
		t.Errorf("cached is %v, and the contract lets the process watch %v", slices.Sorted(maps.Keys(cached)), slices.Sorted(maps.Keys(watched)))
	}
}

// Two pods and more of every server are cached, and a pass reads little of them.
func TestOfPodsTheCacheKeepsWhatIsRead(t *testing.T) {
	ours := map[string]string{"freehold.dev/server": "echo", "app.kubernetes.io/component": "proxy"}
	mark := map[string]string{"freehold.dev/workload-generation": "3", "freehold.dev/workload-hash": "ab"}
	gone := metav1.Now()
	read := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "echo-proxy-1", Namespace: "ns", UID: "u", ResourceVersion: "7", Labels: ours, Annotations: mark, DeletionTimestamp: &gone},
		Status: corev1.PodStatus{
			Conditions:            []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "first"}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "proxy", RestartCount: 2}},
		},
	}
	whole := read.DeepCopy()
	whole.GenerateName, whole.OwnerReferences = "echo-proxy-", []metav1.OwnerReference{{Name: "echo-proxy"}}
	whole.Labels["pod-template-hash"], whole.Annotations["someone.example/s"] = "h", "note"
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	whole.Spec.NodeName, whole.Status.PodIP = "node", "10.0.0.1"
	kept, err := slimPod(whole)
	if err != nil || !equality.Semantic.DeepEqual(kept, &read) {
		t.Errorf("it keeps %+v (%v), want %+v", kept, err, read)
	}
}
