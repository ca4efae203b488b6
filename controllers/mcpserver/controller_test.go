package mcpserver

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/controllers/workload"
)

// A Deployment of another hand is left alone also where the server is suspended:
// the pass looks again after a while, and does not fail.
func TestAnotherHandsDeploymentIsNotStopped(t *testing.T) {
	r, s := settled(t)
	server := read(s)
	server.Spec.Suspend = true
	s.put(server)
	s.put(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: workload.ProxyName("echo"), UID: "another", ResourceVersion: "5000",
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
		}},
	}})
	result, err := r.Reconcile(t.Context(), theServer)
	if err != nil || result.RequeueAfter != time.Second {
		t.Errorf("got %v and %v, want another look in %s", result, err, time.Second)
	}
}
