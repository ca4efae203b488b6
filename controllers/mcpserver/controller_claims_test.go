package mcpserver

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// The server says current. Whoever held content of it yields only if another
// operator took it from him.
func TestWhoYieldsToAnotherOperator(t *testing.T) {
	mine := revision.Revision{Generation: 2, Hash: "mine"}
	claimed := func(by string, operation metav1.ManagedFieldsOperationType) edit {
		return func(s *scene) {
			s.server.ManagedFields = append(s.server.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: by, Operation: operation, Subresource: "status",
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:workload":{"f:hash":{}}}}`),
			})
		}
	}
	operator := claimed(string(contract.MCPServerWorkload), metav1.ManagedFieldsOperationApply)
	for name, tc := range map[string]struct {
		held  revision.Revision
		edits []edit
		want  bool
	}{
		"taken by another operator":    {mine, []edit{operator}, true},
		"held nothing, so just began":  {revision.Revision{}, []edit{operator}, false},
		"held other content":           {revision.Revision{Generation: 2, Hash: "before"}, []edit{operator}, false},
		"a number below what was held": {revision.Revision{Generation: 4, Hash: "mine"}, []edit{operator}, false},
		"the number that was held":     {revision.Revision{Generation: 3, Hash: "mine"}, []edit{operator}, false},
		"the status was lost":          {mine, []edit{operator, func(s *scene) { s.server.Status.Workload = nil }}, false},
		"edited by a person":           {mine, []edit{claimed("kubectl-edit", metav1.ManagedFieldsOperationUpdate)}, false},
		"edited in our name":           {mine, []edit{claimed(string(contract.MCPServerWorkload), metav1.ManagedFieldsOperationUpdate)}, false},
		"held by two":                  {mine, []edit{operator, claimed("x", metav1.ManagedFieldsOperationApply)}, false},
		"held by nobody":               {mine, nil, false},
	} {
		if got := superseded(tc.held, up(tc.edits...).server, revision.Revision{Generation: 4, Hash: "mine"}); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}

func TestAServerIsLeftToAnotherOperatorForAWhile(t *testing.T) {
	now := noon
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Core: reconcile.Core{Events: recorder, Now: func() time.Time { return now }}, lastClaims: lru.New(1)}
	mine, server := revision.Revision{Generation: 2, Hash: "mine"}, taken()
	p := passOver(t, r, server)
	r.hold(server, mine)
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {otherOperatorPatience - 1, true}, {1, false}} {
		now = now.Add(step.after)
		if got := r.yields(p, revision.Revision{Generation: 4, Hash: "mine"}); got != step.want {
			t.Errorf("at %s: yields %t, want %t", now.Sub(noon), got, step.want)
		}
	}
	r.hold(server, revision.Revision{Generation: 4, Hash: "mine"})
	server.Status.Workload.Generation = 5
	if !r.yields(p, revision.Revision{Generation: 6, Hash: "mine"}) {
		t.Error("who lost it again does not yield again")
	}
	close(recorder.Events)
	said := 0
	for e := range recorder.Events {
		said++
		if !strings.HasPrefix(e, "Warning OtherOperator another operator claimed") {
			t.Errorf("said %q", e)
		}
	}
	if said != 2 {
		t.Errorf("said %d times, want once each time", said)
	}
}

// A leaf of the claim that is not ours to remove, as a restore leaves one, holds nothing
// up: no write of ours takes it away.
func TestALeafOfTheClaimThatAnotherHoldsHoldsNothingUp(t *testing.T) {
	for field, left := range map[string]func(*v1alpha1.WorkloadStatus){
		`"f:ownHash":{}`:                        func(w *v1alpha1.WorkloadStatus) { w.OwnHash = "left" },
		`"f:backendHash":{},"f:bridgeImage":{}`: func(w *v1alpha1.WorkloadStatus) { w.BackendHash, w.BridgeImage = "left", "left" },
		`"f:configs":{"k:{\"kind\":\"MCPOIDCConfig\"}":{".":{},"f:hash":{},"f:kind":{},"f:name":{}}}`: func(w *v1alpha1.WorkloadStatus) {
			w.Configs = []v1alpha1.WorkloadConfig{{Kind: "MCPOIDCConfig", Name: "left", Hash: "left"}}
		},
	} {
		t.Run(field, func(t *testing.T) {
			r, s := settled(t)
			server := read(s)
			left(server.Status.Workload)
			server.ManagedFields = append(server.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: "velero-server", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status",
				APIVersion: v1alpha1.SchemeGroupVersion.String(), FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:workload":{` + field + `}}}`),
			})
			s.put(server)
			edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Image = "registry.example.com/echo:2" })
			rest(t, r, s)
			now := read(s)
			proxy, err := revision.Of(s.objects[storedKey{"Deployment", "echo-proxy"}].GetAnnotations())
			if err != nil || proxy.Generation != now.Status.Workload.Generation || proxy.Generation != server.Status.Workload.Generation+1 {
				t.Errorf("the claim is %d after %d, and the proxy has %d (%v)", now.Status.Workload.Generation, server.Status.Workload.Generation, proxy.Generation, err)
			}
			edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Suspend = true })
			rest(t, r, s)
			if suspended := read(s); suspended.Status.ObservedGeneration != suspended.Generation || lastReason(suspended) != v1alpha1.ReasonSuspended {
				t.Errorf("of generation %d it says %s at %d", suspended.Generation, lastReason(suspended), suspended.Status.ObservedGeneration)
			}
		})
	}
}

// taken is a server whose content another operator claimed.
func taken() *v1alpha1.MCPServer {
	return up(func(s *scene) {
		s.server.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: string(contract.MCPServerWorkload), Operation: metav1.ManagedFieldsOperationApply, Subresource: "status",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:workload":{"f:hash":{}}}}`),
		}}
	}).server
}
