package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// slot2Of is a backend in slot 2.
func slot2Of(set *appsv1.StatefulSet) snapshot.BackendObjects {
	set.Name = "echo-slot2"
	return snapshot.BackendObjects{Set: set}
}

// active makes a slot the one that gets the calls.
func active(slot workload.Slot) edit {
	return func(s *scene) {
		s.server.Status.Active = &v1alpha1.ActiveBackend{
			BackendContent: v1alpha1.BackendContent{
				Slot: int32(slot), Hash: "backend-ccc", Generation: 3, Port: 8080,
				Path: "/mcp",
			},
		}
	}
}

// moved puts the backend that serves into slot 2.
func moved(s *scene) {
	active(workload.Slot2)(s)
	s.world.Slot2, s.world.Backend = slot2Of(s.world.Backend), nil
	s.world.Pods[1].Labels = workload.Labels("echo", workload.Slot2.Component())
}

// beside has older content in slot 1, none of whose pods runs.
func beside(s *scene) {
	s.world.Backend = backendOf(older)
	s.world.Backend.Status.ReadyReplicas = 0
	s.world.Pods = append(s.world.Pods, waiting(pod("older", workload.ComponentBackend, older), "CrashLoopBackOff", "x"))
}

func TestTheSlotThatServes(t *testing.T) {
	for name, tc := range map[string]struct {
		edits []edit
		want  workload.Slot
	}{
		"nothing is stated, and nothing stands": {[]edit{noBackend}, workload.Slot1},
		"nothing is stated, slot 1 stands":      {nil, workload.Slot1},
		"nothing is stated, slot 2 stands": {
			[]edit{moved, func(s *scene) { s.server.Status.Active = nil }},
			workload.Slot2,
		},
		"of two the one that serves": {
			[]edit{moved, beside, func(s *scene) { s.server.Status.Active = nil }},
			workload.Slot2,
		},
		"of two that serve the lower generation, in slot 1": {
			[]edit{moved, func(s *scene) { s.world.Backend, s.server.Status.Active = backendOf(older), nil }},
			workload.Slot1,
		},
		"of two that serve the lower generation, in slot 2": {
			[]edit{func(s *scene) { s.world.Slot2 = slot2Of(backendOf(older)) }},
			workload.Slot2,
		},
		"what is stated":                        {[]edit{moved, beside}, workload.Slot2},
		"what is stated, though nothing stands": {[]edit{active(workload.Slot2)}, workload.Slot2},
	} {
		if got := up(tc.edits...).snap().Active; got != tc.want {
			t.Errorf("%s: slot %d, want %d", name, got, tc.want)
		}
	}
}

// What stands in the other slot makes a server neither ready nor unready, and an autoscaler does not count it.
func TestOnlyTheActiveSlotCounts(t *testing.T) {
	for name, edits := range map[string][]edit{"alone": {moved}, "beside other content": {moved, beside}} {
		s := up(edits...)
		if got := s.ready(nil); got != isUp {
			t.Errorf("%s: Ready is %v", name, got)
		}
		scalars, _ := report.Scalars(s.snap(), s.plan(), v1alpha1.PhaseServing)
		text, err := json.Marshal(scalars)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"readyReplicas":1`, "app.kubernetes.io/component=backend-slot2,"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: the status lacks %s: %s", name, want, text)
			}
		}
	}
	s := up(moved, beside, func(s *scene) {
		s.world.Slot2.Set.Status.ReadyReplicas = 0
		s.world.Pods = []corev1.Pod{s.world.Pods[0], pod("older", workload.ComponentBackend, older)}
		s.world.Pods[1].Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon)
	})
	s.world.Backend.Status.ReadyReplicas = 1
	if got := s.ready(nil); got.Reason != v1alpha1.ReasonUnavailable {
		t.Errorf("with ready pods of the other slot alone Ready is %v", got)
	}
}

// A server stops, and is scaled, in all slots.
func TestAllSlotsStop(t *testing.T) {
	ended := func(s *scene) {
		s.world.Proxy.Spec.Replicas, s.world.Proxy.Status = new(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 4}
		s.world.Pods = s.world.Pods[1:]
	}
	deleted := func(s *scene) { s.server.DeletionTimestamp = new(metav1.NewTime(noon)) }
	next := func(edits ...edit) string {
		s := up(append([]edit{moved, beside, ended, deleted}, edits...)...)
		s.stops = snapshot.Stops{Server: noon, Backend: noon}
		action := s.plan().Steps[0].Action
		if a, is := action.(plan.DeleteBackend); is {
			return a.Live.Name
		}
		return fmt.Sprintf("%T", action)
	}
	guarded := func(s *scene) { s.world.Policy = policyOf("uid") }
	none := func(s *scene) { s.world.Slot2 = snapshot.BackendObjects{} }
	for _, row := range []struct{ got, want string }{
		{next(), "echo-backend"},
		{next(noBackend), "echo-slot2"},
		{next(noBackend, none), "plan.ReleaseFinalizer"},
		{next(noBackend, none, guarded), "plan.AwaitBackend"},
		{next(noBackend, none, guarded, func(s *scene) { s.world.Pods = s.world.Pods[:1] }), "plan.AwaitBackend"},
		{next(noBackend, none, guarded, func(s *scene) { s.world.Pods = nil }), "plan.DeletePolicy"},
	} {
		if row.got != row.want {
			t.Errorf("the step is %s, want %s", row.got, row.want)
		}
	}

	zero := func(s *scene) { s.server.Spec.Replicas = new(int32(0)) }
	s := up(moved, beside, ended, zero)
	s.world.Backend.Spec.Replicas, s.world.Slot2.Set.Spec.Replicas = new(int32(1)), new(int32(1))
	scaled := map[string]int32{}
	for _, a := range actions[plan.ScaleBackend](s.plan()) {
		scaled[a.Live.Name] = a.Replicas
	}
	if fmt.Sprint(scaled) != "map[echo-backend:0 echo-slot2:0]" {
		t.Errorf("it scales %v", scaled)
	}
	s.world.Slot2.Set.Spec.Replicas, s.world.Slot2.Set.Status = new(int32(0)),
		appsv1.StatefulSetStatus{ObservedGeneration: 2}
	s.world.Pods = []corev1.Pod{}
	if got := s.plan().Phase; got != plan.Draining {
		t.Errorf("with a backend in slot 1 left the phase is %s", got)
	}
	s.world.Backend = nil
	if got := s.plan().Phase; got != plan.Stopped {
		t.Errorf("with nothing left the phase is %s", got)
	}
}

// Content that replaces what runs in place gets the calls as soon as it is claimed. What concerns the proxy alone
// writes nothing.
func TestWhichBackendGetsTheCallsIsStated(t *testing.T) {
	claimed := func(s *scene) {
		s.digest.Port, s.digest.Path, s.digest.Transport = 8080, "/mcp", v1alpha1.TransportSSE
	}
	stated := func(change func(*v1alpha1.ActiveBackend)) edit {
		return func(s *scene) {
			s.server.Status.Active = &v1alpha1.ActiveBackend{BackendContent: v1alpha1.BackendContent{
				Slot: 1, Hash: "backend-ccc", Generation: 2, Port: 8080, Path: "/mcp", Transport: v1alpha1.TransportSSE,
			}, Since: metav1.NewTime(noon.Add(-time.Hour))}
			change(s.server.Status.Active)
		}
	}
	same := func(*v1alpha1.ActiveBackend) {}
	for name, tc := range map[string]struct {
		edits []edit
		want  string
	}{
		"nothing was":       {nil, "slot 1, backend-ccc of 3 at 8080/mcp, now"},
		"a backend was not": {[]edit{noBackend}, "slot 1, backend-ccc of 3 at 8080/mcp, now"},
		"a backend stands in slot 2": {
			[]edit{func(s *scene) { s.world.Slot2, s.world.Backend = slot2Of(s.world.Backend), nil }},
			"slot 2, backend-ccc of 3 at 8080/mcp, now",
		},
		"the same": {[]edit{stated(same)}, "slot 1, backend-ccc of 2 at 8080/mcp, before"},
		"in slot 2": {
			[]edit{stated(func(a *v1alpha1.ActiveBackend) { a.Slot = 2 }), func(s *scene) {
				s.world.Slot2, s.world.Backend = slot2Of(s.world.Backend), nil
			}},
			"slot 2, backend-ccc of 2 at 8080/mcp, before",
		},
		"other content": {
			[]edit{stated(func(a *v1alpha1.ActiveBackend) { a.Hash = "x" })},
			"slot 1, backend-ccc of 3 at 8080/mcp, now",
		},
		"another path, same pods": {
			[]edit{stated(func(a *v1alpha1.ActiveBackend) { a.Path = "/" })},
			"slot 1, backend-ccc of 2 at 8080/mcp, before",
		},
		"and the server stops": {
			[]edit{stated(same), func(s *scene) { s.server.Spec.Suspend = true }},
			"slot 1, backend-ccc of 2 at 8080/mcp, before",
		},
		"other content, and the server waits for a configuration": {
			[]edit{stated(func(a *v1alpha1.ActiveBackend) { a.Hash = "x" }), waitsForConfig},
			"slot 1, backend-ccc of 3 at 8080/mcp, now",
		},
		"and nothing is claimed": {[]edit{func(s *scene) { s.server.Status.Workload = nil }}, ""},
		"and the spec is wrong": {
			[]edit{func(s *scene) { s.digest.Problems = podtemplate.Problems{{Field: "f", Message: "m"}} }}, "",
		},
		"and the server is leaving": {[]edit{func(s *scene) { s.server.DeletionTimestamp = new(metav1.NewTime(noon)) }}, ""},
	} {
		got := ""
		for _, a := range actions[plan.WritePlan](up(append([]edit{claimed}, tc.edits...)...).plan()) {
			at := "before"
			if a.Active.Since.Time.Equal(noon) {
				at = "now"
			}
			got += fmt.Sprintf("slot %d, %s of %d at %d%s, %s", a.Active.Slot, a.Active.Hash, a.Active.Generation,
				a.Active.Port, a.Active.Path, at)
		}
		if got != tc.want {
			t.Errorf("%s: stated is %q, want %q", name, got, tc.want)
		}
	}
}

// The API server lets the number of what is stated never fall.
func TestANumberThatIsStatedCounts(t *testing.T) {
	for stated, want := range map[int64]int64{2: 3, 3: 3, 9: 10} {
		s := up(active(workload.Slot1), func(s *scene) {
			s.server.Status.Active.Hash, s.server.Status.Active.Generation = "x", stated
		})
		if got := s.plan().Target.Generation; got != want {
			t.Errorf("the number after %d is %d, want %d", stated, got, want)
		}
	}
}

// What keeps a pointer from being written is told where somebody waits for it, and the rest of the pass is done.
func TestAPointerThatIsNotWrittenHoldsNothingElseBack(t *testing.T) {
	first := func(m *v1alpha1.MCPServer) { m.Status.Active = nil }
	path := func(m *v1alpha1.MCPServer) { m.Status.Active.Path = "/other" }
	refused := apierrors.NewBadRequest("not today")
	conflict := &apply.Conflict{Manager: contract.MCPServerPlan, Fields: []string{".status.active.path"}}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.MCPServer)
		answer error
		reason string
	}{
		"the first is refused":              {first, refused, v1alpha1.ReasonReady},
		"a later one is refused":            {path, refused, v1alpha1.ReasonApplyFailed},
		"another manager states it as well": {path, conflict, v1alpha1.ReasonReady},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := settled(t)
			edited(s, tc.change)
			delete(s.objects, storedKey{"Service", "echo-proxy"})
			s.refuse = func(kind string) error {
				if kind == "pointer" {
					return tc.answer
				}
				return nil
			}
			rest(t, r, s)
			result, err := r.Reconcile(t.Context(), theServer)
			server := read(s)
			ready := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
			if err != nil || result.RequeueAfter == 0 || ready.Reason != tc.reason ||
				ready.ObservedGeneration != server.Generation || s.objects[storedKey{"Service", "echo-proxy"}] == nil {
				t.Errorf("it is tried again in %v, %v, and Ready is %v", result.RequeueAfter, err, ready)
			}
		})
	}
}
