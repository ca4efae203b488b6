package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/metrics"
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
			Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
		}},
	}})
	result, err := r.Reconcile(t.Context(), theServer)
	if err != nil || result.RequeueAfter != time.Second {
		t.Errorf("got %v and %v, want another look in %s", result, err, time.Second)
	}
}

// The backend that stands is scaled also where new content cannot go out: it was refused a child, and its proxy is gone
// or has older content. It is given no more pods of older content of its own.
func TestARefusedChildDoesNotKeepTheScale(t *testing.T) {
	long := strings.Repeat("x", 17<<10) // which takes a ConfigMap
	for name, tc := range map[string]struct {
		before func(*stored)
		want   int32
	}{
		"the proxy is gone": {func(s *stored) {
			delete(s.objects, storedKey{"Deployment", "echo-proxy"})
			delete(s.objects, storedKey{"ServiceAccount", workload.RunnerName("echo")})
		}, 3},
		"the content of the proxy is new too": {func(s *stored) {
			edited(s, func(m *v1alpha1.MCPServer) {
				m.Spec.AuthzConfig = &v1alpha1.AuthzConfig{
					Policies: []v1alpha1.AuthzPolicy{
						{Name: "a", Policy: `forbid (principal == User::"` + long + `", action, resource);`},
					},
				}
			})
		}, 3},
		"the content of the backend is new too": {func(s *stored) {
			edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Args, m.Spec.Rollout = []string{long}, echoInPlace().Spec.Rollout })
		}, 1},
		"the content of the backend is new too, and comes up beside what serves": {func(s *stored) {
			edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Args = []string{long} })
		}, 3},
	} {
		r, s := settled(t)
		tc.before(s)
		edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Replicas = new(int32(3)) })
		s.refuse = func(kind string) error {
			if kind == "ConfigMap" || kind == "ServiceAccount" {
				return errors.New("no")
			}
			return nil
		}
		var err error
		for range 4 { // Ready goes down, the number is claimed, the plan is stored, the children are refused
			_, err = r.Reconcile(t.Context(), theServer)
		}
		backend := s.objects[storedKey{"StatefulSet", "echo-backend"}].(*appsv1.StatefulSet)
		if got := ptr.Deref(backend.Spec.Replicas, 1); err == nil || got != tc.want {
			t.Errorf("%s: it ends with %v, and the backend has %d replicas, want %d", name, err, got, tc.want)
		}
	}
}

// unreadable is a cluster of which no Deployment can be read.
type unreadable struct{ client.Reader }

func (u unreadable) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch obj.(type) {
	case *appsv1.Deployment:
		return fmt.Errorf("no answer about %T", obj)
	}
	return u.Reader.Get(ctx, key, obj, opts...)
}

// A pass that cannot read the world has failed, and is counted with the others.
func TestAnUnreadableWorldIsAFailedPass(t *testing.T) {
	failed := func() float64 {
		families, err := registry.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if l := m.GetLabel(); family.GetName() == "freehold_passes_total" && l[0].GetValue() == "MCPServer" &&
					l[1].GetValue() == metrics.Failed {
					return m.GetCounter().GetValue()
				}
			}
		}
		return 0
	}
	r, s := settled(t)
	r.reader.Cache = unreadable{s}
	before := failed()
	_, err := r.Reconcile(t.Context(), theServer)
	if err == nil || !strings.Contains(err.Error(), "Deployment") || failed() != before+1 {
		t.Errorf("it ends with %v, and %v passes have failed", err, failed()-before)
	}
}

// edited changes the server's spec.
func edited(s *stored, change func(*v1alpha1.MCPServer)) {
	server := read(s)
	change(server)
	server.Generation++
	s.put(server)
}

// The status says for programs what Ready says, in the write of the conditions.
func TestTheStatusHasThePhase(t *testing.T) {
	r, s := settled(t)
	phases, served := []v1alpha1.WorkloadPhase{read(s).Status.Phase}, []int64{read(s).Status.ServedGeneration}
	for _, change := range []func(*v1alpha1.MCPServer){
		func(m *v1alpha1.MCPServer) { m.Spec.Args = []string{"x"} },
		func(m *v1alpha1.MCPServer) { m.Spec.AuthzConfigRef = &v1alpha1.LocalReference{Name: "none"} },
		func(m *v1alpha1.MCPServer) { m.Spec.AuthzConfigRef, m.Spec.Suspend = nil, true },
	} {
		edited(s, change)
		rest(t, r, s)
		phases, served = append(phases, read(s).Status.Phase), append(served, read(s).Status.ServedGeneration)
	}
	want := []v1alpha1.WorkloadPhase{
		v1alpha1.PhaseServing, v1alpha1.PhaseUpdating, v1alpha1.PhaseUnresolved, v1alpha1.PhaseStopping,
	}
	if !slices.Equal(phases, want) || !slices.Equal(served, []int64{1, 1, 1, 1}) {
		t.Errorf("it says %v of served generations %v, want %v", phases, served, want)
	}
}
