package mcpserver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// A conflict is told while repairs of it wait, costs a repair a minute, and is over by itself.
func TestAConflictIsToldWhileItGoesOn(t *testing.T) {
	r, s := settled(t)
	now := noon
	r.Now = func() time.Time { return now }
	r.Applier.Now = r.Now
	name := workload.ProxyName("echo")
	theirs := corev1ac.Service(name, "ns").WithSpec(corev1ac.ServiceSpec().WithType(corev1.ServiceTypeNodePort))
	// steal takes a field, and returns how many writes the next pass makes, and when it wants another.
	steal := func() (writes int, again time.Duration) {
		if err := s.apply(theirs, "intruder", ""); err != nil {
			t.Fatal(err)
		}
		before := s.applies
		result, err := r.Reconcile(t.Context(), theServer)
		if err != nil {
			t.Fatal(err)
		}
		return s.applies - before, result.RequeueAfter
	}
	told := func() bool {
		return meta.IsStatusConditionTrue(read(s).Status.Conditions, v1alpha1.ConditionFieldConflict)
	}
	for i, want := range []struct {
		writes int
		again  time.Duration
		told   bool
	}{
		{1, 0, false}, // repaired
		{1, 0, false},
		{1, 0, false},
		{1, time.Minute, true}, // the next repair waits: that is said
		{0, time.Minute, true},
	} {
		writes, again := steal()
		if writes != want.writes || again != want.again || told() != want.told {
			t.Fatalf("theft %d: %d writes, again in %s, told %t; want %+v", i+1, writes, again, told(), want)
		}
	}
	now = now.Add(time.Minute)
	if writes, _ := steal(); writes != 2 || told() {
		t.Fatalf("after a minute it wrote %d times, told %t", writes, told())
	}
	service := s.objects[storedKey{"Service", name}].(*corev1.Service)
	if service.Spec.Type == corev1.ServiceTypeNodePort {
		t.Error("the field was not repaired")
	}
	rest(t, r, s)
}

// Also the fields of the status are ours.
func TestAConflictOverTheStatusIsTold(t *testing.T) {
	r, s := settled(t)
	r.Now = func() time.Time { return noon }
	r.Applier.Now = r.Now
	theirs := v1alpha1ac.MCPServer("echo", "ns").WithStatus(v1alpha1ac.MCPServerStatus().WithURL("http://elsewhere"))
	for range 4 {
		if err := s.apply(theirs, "intruder", "status"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), theServer); err != nil {
			t.Fatal(err)
		}
	}
	told := meta.FindStatusCondition(read(s).Status.Conditions, v1alpha1.ConditionFieldConflict)
	if told == nil || !strings.Contains(told.Message, "status.url") {
		t.Errorf("it says %+v", told)
	}
}

// What admission changes of what we apply is told once, and is no fight: it costs no
// write at rest, and after a while one that asks whether it still happens.
func TestWhatAdmissionChangesIsToldOnce(t *testing.T) {
	r, s := settled(t)
	recorder := events.NewFakeRecorder(10)
	now := noon
	r.Now, r.Events = func() time.Time { return now }, recorder
	r.Applier.Now = r.Now
	s.admit = func(o client.Object) {
		if service, ok := o.(*corev1.Service); ok {
			service.Spec.Type = corev1.ServiceTypeNodePort
		}
	}
	name := workload.ProxyName("echo")
	service := s.objects[storedKey{"Service", name}].(*corev1.Service)
	s.admit(service) // in somebody else's write
	s.put(service)
	pass := func(writes int) time.Duration {
		t.Helper()
		before := s.applies
		result, err := r.Reconcile(t.Context(), theServer)
		if err != nil || s.applies-before != writes {
			t.Fatalf("%d writes and %v, want %d", s.applies-before, err, writes)
		}
		return result.RequeueAfter
	}
	pass(1)
	if got := <-recorder.Events; !strings.HasPrefix(got,
		"Normal FieldsRewritten admission of this cluster changes what Freehold applies to Service echo-proxy: .spec.type;") {
		t.Errorf("heard %q", got)
	}
	now = now.Add(pass(0))
	again := pass(1)
	if now = now.Add(again); again != 10*time.Minute ||
		meta.IsStatusConditionTrue(read(s).Status.Conditions, v1alpha1.ConditionFieldConflict) {
		t.Errorf("again in %s, %v", again, read(s).Status.Conditions)
	}
	s.admit = nil
	pass(1)
	if got := s.objects[storedKey{"Service", name}].(*corev1.Service).Spec.Type; got != corev1.ServiceTypeClusterIP {
		t.Errorf("after its end the type is %s", got)
	}
	if again := pass(0); again != 0 || len(recorder.Events) > 0 {
		t.Errorf("again in %s, and %d Events", again, len(recorder.Events))
	}
}

// Conflicts over the backend's objects are the runner's to tell; who looks at the
// server finds them beside the operator's.
func TestAConflictOverTheBackendIsTold(t *testing.T) {
	runner := condition(v1alpha1.ConditionBackendApplied, metav1.ConditionTrue, v1alpha1.ReasonFieldConflict,
		"m overwrites .spec.type of Service echo-backend")
	theirs := []*apply.Conflict{{Object: contract.Service, Key: theServer.NamespacedName, Fields: []string{".spec.type"}}}
	operator := func(s *scene) { s.conflicts = theirs }
	for name, tc := range map[string]struct {
		scene scene
		says  []string
	}{
		"none":         {up(), nil},
		"the runner's": {up(runner), []string{"m overwrites .spec.type of Service echo-backend"}},
		"and another": {
			up(runner, operator),
			[]string{".spec.type of Service echo.", ". Of the backend: m overwrites .spec.type of Service echo-backend"},
		},
		"the operator's": {up(operator), []string{".spec.type of Service echo."}},
	} {
		t.Run(name, func(t *testing.T) {
			found := tc.scene.says(nil)
			f := found[v1alpha1.ConditionFieldConflict]
			if (f.Status == metav1.ConditionTrue) != (tc.says != nil) {
				t.Fatalf("it says %+v", f)
			}
			for _, text := range tc.says {
				if !strings.Contains(f.Message, text) {
					t.Errorf("it does not say %q: %s", text, f.Message)
				}
			}
		})
	}
}

// Nothing is refused to a server that comes up while another manager overwrites a
// field: that has a condition of its own, and Ready says the same in every pass.
func TestAConflictIsNotSaidByReady(t *testing.T) {
	conflict := fmt.Errorf("applying Service ns/echo-proxy as m: %w", &apply.Conflict{RequeueAfter: 42 * time.Second})
	bad := fmt.Errorf("applying Role ns/echo-runner as m: %w", &apply.BadIntent{Err: errors.New("422")})
	starting := up(said(v1alpha1.ReasonStarting), func(s *scene) { s.world.Backend.Status.ReadyReplicas = 0 })
	for name, tc := range map[string]struct {
		scene   scene
		applied error
		reason  string
	}{
		"it comes up":        {starting, conflict, v1alpha1.ReasonStarting},
		"it is up":           {up(), conflict, v1alpha1.ReasonReady},
		"and one is refused": {starting, errors.Join(conflict, bad), v1alpha1.ReasonApplyFailed},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.scene.ready(tc.applied)
			if got.Reason != tc.reason || strings.Contains(got.Message, "42s") {
				t.Errorf("it says %+v, want %s", got, tc.reason)
			}
		})
	}
}
