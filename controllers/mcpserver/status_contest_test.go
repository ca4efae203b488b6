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
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// A fight is said while it goes on, costs a write a minute, and is over by
// itself.
func TestAFightIsToldWhileItGoesOn(t *testing.T) {
	r, s := settled(t)
	now := noon
	r.Now = func() time.Time { return now }
	r.Applier.Now = r.Now
	name := workload.ProxyName("echo")
	theirs := corev1ac.Service(name, "ns").WithSpec(corev1ac.ServiceSpec().WithType(corev1.ServiceTypeNodePort))
	// steal takes a field, and returns how many writes the next pass makes, and when
	// it wants another.
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
		return meta.IsStatusConditionTrue(read(s).Status.Conditions, v1alpha1.ConditionFieldsContended)
	}
	for i, want := range []struct {
		writes int
		again  time.Duration
		told   bool
	}{
		{1, 0, false},              // taken back, as after a slip of somebody's hand
		{2, time.Minute, true},     // again: now it is said
		{1, 2 * time.Minute, true}, // and once more
		{0, time.Minute, true},     // which did not help
		{0, time.Minute, true},
	} {
		writes, again := steal()
		if writes != want.writes || again != want.again || told() != want.told {
			t.Fatalf("theft %d: %d writes, again in %s, told %t; want %+v", i+1, writes, again, told(), want)
		}
	}
	now = now.Add(time.Minute)
	if writes, _ := steal(); writes != 1 || !told() {
		t.Fatalf("after a minute it wrote %d times, told %t", writes, told())
	}
	service := s.objects[storedKey{"Service", name}].(*corev1.Service)
	if service.Spec.Type == corev1.ServiceTypeNodePort {
		t.Error("the field was not taken back")
	}
	now = now.Add(2 * time.Minute)
	rest(t, r, s)
	if told() {
		t.Error("it is over, and still told")
	}
}

// One server's name may begin another's, and go on as a child's does.
func TestAFightIsOfOneServer(t *testing.T) {
	servers := []string{"echo", "echo-run", "echo-run-1", "echo-backend", "echo-runner"}
	for of, c := range map[string]ownership.Object{
		"echo": contract.MCPServer, "echo-run": contract.MCPServer, "echo-backend": contract.MCPServer, "echo-runner": contract.MCPServer,
		"echo echo-run-1-abc": contract.ConfigMap, "echo-run echo-run-run-1-abc": contract.ConfigMap,
		"echo-run-1 echo-run-1-run-2-abc": contract.ConfigMap, " echo-run-01-abc": contract.ConfigMap, " echo-run-abc": contract.ConfigMap,
		" echo-run-1-": contract.ConfigMap, " echo-run-config-map": contract.ConfigMap,
		"echo echo-runner": contract.Role, "echo-runner echo-runner-runner": contract.Role,
		"echo echo-backend-headless": contract.Service, "echo-backend echo-backend-backend-headless": contract.Service,
	} {
		want, name, hasChild := strings.Cut(of, " ")
		if !hasChild {
			name = want
		}
		for _, server := range servers {
			contest := apply.Contest{Object: c, Key: types.NamespacedName{Namespace: "ns", Name: name}}
			if got := isOf(server, contest); got != (server == want) {
				t.Errorf("a fight for %s %s is told of %s: %t", c.Kind, name, server, got)
			}
		}
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
	if got := <-recorder.Events; !strings.HasPrefix(got, "Normal FieldsRewritten admission of this cluster changes what Freehold applies to Service echo-proxy: .spec.type;") {
		t.Errorf("heard %q", got)
	}
	now = now.Add(pass(0))
	again := pass(1)
	if now = now.Add(again); again != 10*time.Minute || meta.IsStatusConditionTrue(read(s).Status.Conditions, v1alpha1.ConditionFieldsContended) {
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

// Fights for the backend's objects are the runner's to tell; who looks at the
// server finds them beside the operator's.
func TestAFightForTheBackendIsTold(t *testing.T) {
	runner := condition(v1alpha1.ConditionBackendApplied, metav1.ConditionTrue, v1alpha1.ReasonContended, "Service echo-backend: .spec.type, by them")
	theirs := apply.Contest{Object: contract.Service, Key: theServer.NamespacedName, Since: noon}
	for name, tc := range map[string]struct {
		scene scene
		says  []string
	}{
		"none":           {up(), nil},
		"the runner's":   {up(runner), []string{"Service echo-backend: .spec.type, by them"}},
		"and another":    {up(runner, func(s *scene) { s.world.contests = []apply.Contest{theirs} }), []string{"Service echo: ", "; and of the backend: Service echo-backend"}},
		"the operator's": {up(func(s *scene) { s.world.contests = []apply.Contest{theirs} }), []string{"Service echo: "}},
	} {
		t.Run(name, func(t *testing.T) {
			found := findings(tc.scene.server, tc.scene.world, tc.scene.want, conditions.True(v1alpha1.ReasonReady, ""), noon)
			f := found[v1alpha1.ConditionFieldsContended]
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

// Nothing is refused to a server that comes up while somebody fights for a field:
// who fights has a condition of its own, and Ready says the same in every pass.
func TestAFightIsNotSaidByReady(t *testing.T) {
	fought := fmt.Errorf("applying Service ns/echo-proxy as m: %w", &apply.Fought{Again: 42 * time.Second})
	bad := fmt.Errorf("applying Role ns/echo-runner as m: %w", &apply.BadIntent{Err: errors.New("422")})
	starting := up(said(v1alpha1.ReasonStarting), func(s *scene) { s.world.backend.Status.ReadyReplicas = 0 })
	for name, tc := range map[string]struct {
		scene   scene
		applied error
		reason  string
	}{
		"it comes up":        {starting, fought, v1alpha1.ReasonStarting},
		"it is up":           {up(), fought, v1alpha1.ReasonReady},
		"and one is refused": {starting, errors.Join(fought, bad), v1alpha1.ReasonApplyFailed},
	} {
		t.Run(name, func(t *testing.T) {
			got := ready(tc.scene.server, tc.scene.world, tc.scene.want, tc.applied)
			if got.Reason != tc.reason || strings.Contains(got.Message, "42s") {
				t.Errorf("it says %+v, want %s", got, tc.reason)
			}
		})
	}
}
