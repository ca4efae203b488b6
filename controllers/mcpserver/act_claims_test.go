package mcpserver

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/render"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// The server says current. Whoever held content of it yields only if another operator took it from him.
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
		"edited in our name": {
			mine,
			[]edit{claimed(string(contract.MCPServerWorkload), metav1.ManagedFieldsOperationUpdate)},
			false,
		},
		"held by two":    {mine, []edit{operator, claimed("x", metav1.ManagedFieldsOperationApply)}, false},
		"held by nobody": {mine, nil, false},
	} {
		s := up(tc.edits...)
		s.world, s.held, s.digest.Hash = world{}, snapshot.Held{Revision: tc.held}, "mine"
		if made := s.plan(); (made.Phase == plan.Superseded) != tc.want || (len(actions[plan.Yield](made)) > 0) != tc.want {
			t.Errorf("%s: it is %s, want it to yield: %t", name, made.Phase, tc.want)
		}
	}
}

func TestAServerIsLeftToAnotherOperatorForAWhile(t *testing.T) {
	claims := snapshot.NewReader(kinds.Servers(), nil, nil).Claims
	mine, s := revision.Revision{Generation: 2, Hash: "mine"}, scene{server: taken(), digest: render.Digest{Hash: "mine"}}
	yields := func(at time.Duration) (yields, news bool) {
		s.now, s.held = noon.Add(at), claims.Held(s.server.UID)
		if yields = s.plan().Phase == plan.Superseded; yields {
			news = claims.Lose(s.server.UID, s.now)
		}
		return yields, news
	}
	claims.Hold(s.server.UID, mine)
	for _, step := range []struct {
		at         time.Duration
		want, news bool
	}{{0, true, true}, {snapshot.LeftTo - 1, true, false}, {snapshot.LeftTo, false, false}} {
		if got, news := yields(step.at); got != step.want || news != step.news {
			t.Errorf("at %s: yields %t, which is news %t; want %t, %t", step.at, got, news, step.want, step.news)
		}
	}
	claims.Hold(s.server.UID, revision.Revision{Generation: 4, Hash: "mine"})
	s.server.Status.Workload.Generation = 5
	if got, news := yields(snapshot.LeftTo); !got || !news {
		t.Error("who lost it again does not yield again, and tell")
	}
}

// A leaf of the claim that is not ours to remove, as a restore leaves one, holds nothing
// up: no write of ours takes it away.
func TestALeafOfTheClaimThatAnotherHoldsHoldsNothingUp(t *testing.T) {
	for field, left := range map[string]func(*v1alpha1.WorkloadStatus){
		`"f:ownHash":{}`: func(w *v1alpha1.WorkloadStatus) { w.OwnHash = "left" },
		`"f:backendHash":{},"f:bridgeImage":{}`: func(w *v1alpha1.WorkloadStatus) {
			w.BackendHash, w.BridgeImage = "left", "left"
		},
		`"f:configs":{"k:{\"kind\":\"MCPOIDCConfig\"}":{".":{},"f:hash":{},"f:kind":{},"f:name":{}}}`: func(
			w *v1alpha1.WorkloadStatus,
		) {
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
			if err != nil || proxy.Generation != now.Status.Workload.Generation ||
				proxy.Generation != server.Status.Workload.Generation+1 {
				t.Errorf("the claim is %d after %d, and the proxy has %d (%v)", now.Status.Workload.Generation,
					server.Status.Workload.Generation, proxy.Generation, err)
			}
			edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Suspend = true })
			rest(t, r, s)
			if suspended := read(s); suspended.Status.ObservedGeneration != suspended.Generation ||
				meta.FindStatusCondition(suspended.Status.Conditions, v1alpha1.ConditionReady).Reason != v1alpha1.ReasonSuspended {
				t.Errorf("of generation %d it says %s at %d", suspended.Generation,
					meta.FindStatusCondition(suspended.Status.Conditions, v1alpha1.ConditionReady).Reason,
					suspended.Status.ObservedGeneration)
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
