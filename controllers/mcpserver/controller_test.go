package mcpserver

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
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

// The backend that stands is scaled also where new content cannot go out: it was
// refused a child, and its proxy is gone or has older content.
func TestARefusedChildDoesNotKeepTheScale(t *testing.T) {
	for name, before := range map[string]func(*stored){
		"the proxy is gone": func(s *stored) {
			delete(s.objects, storedKey{"Deployment", "echo-proxy"})
			delete(s.objects, storedKey{"ServiceAccount", workload.RunnerName("echo")})
		},
		"its content is new too": func(s *stored) {
			edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Args = []string{strings.Repeat("x", 17<<10)} }) // a ConfigMap
		},
	} {
		r, s := settled(t)
		before(s)
		edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Replicas = new(int32(3)) })
		s.refuse = func(kind string) error {
			if kind == "ConfigMap" || kind == "ServiceAccount" {
				return errors.New("no")
			}
			return nil
		}
		var err error
		for range 3 { // Ready goes down, the number is claimed, the children are refused
			_, err = r.Reconcile(t.Context(), theServer)
		}
		got := s.objects[storedKey{"StatefulSet", "echo-backend"}].(*appsv1.StatefulSet).Spec.Replicas
		if err == nil || *got != 3 {
			t.Errorf("%s: it ends with %v, and the backend has %d replicas", name, err, *got)
		}
	}
}

// edited changes the server's spec.
func edited(s *stored, change func(*v1alpha1.MCPServer)) {
	server := read(s)
	change(server)
	server.Generation++
	s.put(server)
}
