package mcpserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// states are the conditions that each scene is to state.
type states map[string]struct {
	scene   scene
	applied error
	want    string
}

func (table states) check(t *testing.T) {
	t.Helper()
	for name, tc := range table {
		t.Run(name, func(t *testing.T) {
			found := tc.scene.says(tc.applied)
			var got []string
			for _, kind := range []string{
				"Accepted", "FinalizerMissing", "ForeignPodContent", "Ready", "Reconciling", "Stalled",
				"Suspended",
			} {
				f, ok := found[kind]
				if !ok {
					continue
				}
				got = append(got, fmt.Sprintf("%s=%s", kind, f.Status))
				if r := found["Ready"]; (kind == "Reconciling" || kind == "Stalled") &&
					(f.Reason != r.Reason || f.Message != r.Message) {
					t.Errorf("%s says %s, and Ready says %s", kind, f.Reason, r.Reason)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func suspended(s *scene) { s.server.Spec.Suspend = true }

// gone scales proxy and backend to zero, and they are.
func gone(s *scene) {
	s.world.Proxy.Spec.Replicas, s.world.Proxy.Status = new(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 4}
	s.world.Backend.Spec.Replicas, s.world.Backend.Status = new(int32(0)), appsv1.StatefulSetStatus{ObservedGeneration: 2}
	s.world.Pods = nil
}

func TestAcceptedNamesEveryProblemAndWhatRuns(t *testing.T) {
	problems := []podtemplate.Problem{{Field: "spec.a", Message: "no"}, {Field: "spec.b", Message: "neither"}}
	for name, tc := range map[string]struct {
		scene scene
		runs  string
	}{
		"later":     {up(), "The last accepted content keeps running"},
		"at first":  {up(func(s *scene) { s.world = world{} }), "Nothing runs before that"},
		"suspended": {up(suspended), "Nothing runs before that"},
		"unguarded": {
			up(func(s *scene) { s.digest.Guards = "authorization" }),
			"The proxy is stopped until then, because it does not enforce what the spec asks for",
		},
	} {
		tc.scene.digest.Problems = problems
		want := conditions.False("SpecInvalid", "spec.a: no; spec.b: neither. "+tc.runs)
		if diff := cmp.Diff(want, tc.scene.says(nil)["Accepted"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A spec that is not accepted says where nothing is reached yet.
func TestTheURLOfARefusedSpecIsNotReported(t *testing.T) {
	s := up(func(s *scene) {
		s.digest.Problems = []podtemplate.Problem{{Field: "spec.a", Message: "no"}}
		s.server.Spec.Proxy, s.server.Status.PublicURL = &v1alpha1.ProxySpec{PublicURL: "https://new"}, "https://old/mcp"
	})
	got, _ := report.Scalars(s.snap(), s.plan(), v1alpha1.PhaseBlocked)
	server, is := got.(*v1alpha1ac.MCPServerApplyConfiguration)
	if !is || *server.Status.URL != "http://old" || ptr.Deref(server.Status.PublicURL, "") != "https://old/mcp" {
		t.Errorf("stated is %+v, want the old URLs", got)
	}
}

// Where a server is published it says so, with its path, and no longer once it is not.
func TestThePublicURLIsReported(t *testing.T) {
	for stated, want := range map[string]string{
		"https://mcp.example.com":       "https://mcp.example.com/mcp",
		"https://mcp.example.com/echo/": "https://mcp.example.com/echo/mcp",
		"":                              "",
	} {
		s := up(func(s *scene) {
			s.server.Spec.Proxy, s.server.Status.PublicURL = &v1alpha1.ProxySpec{PublicURL: stated}, "https://old/mcp"
		})
		got, _ := report.Scalars(s.snap(), s.plan(), v1alpha1.PhaseServing)
		server, is := got.(*v1alpha1ac.MCPServerApplyConfiguration)
		if !is || ptr.Deref(server.Status.PublicURL, "") != want {
			t.Errorf("%q is reported as %+v, want %q", stated, got, want)
		}
	}
}

func wants(n int32) edit { return func(s *scene) { s.server.Spec.Replicas = new(n) } }

func TestScalarStatus(t *testing.T) {
	reported := func(replicas, ready int32) edit {
		return func(s *scene) {
			s.server.Status.URL = "http://old"
			s.server.Status.Replicas, s.server.Status.ReadyReplicas = new(replicas), new(ready)
		}
	}
	backend := func(replicas, ready int32) edit {
		return func(s *scene) {
			s.world.Backend.Status.Replicas, s.world.Backend.Status.ReadyReplicas = replicas, ready
		}
	}
	const (
		is, moves, halted     = v1alpha1.PhaseServing, v1alpha1.PhaseUpdating, v1alpha1.PhaseStopping
		starting, unavailable = v1alpha1.PhaseStarting, v1alpha1.PhaseUnavailable
	)
	for name, tc := range map[string]struct {
		scene scene
		phase v1alpha1.WorkloadPhase
		want  string // replicas and ready, empty where nothing is stated
	}{
		"first, once one is ready":         {up(first), is, "1/1"},
		"before one is ready":              {up(first, backend(1, 0)), starting, ""},
		"without a backend":                {up(reported(1, 1), noBackend), moves, ""},
		"with an earlier server's backend": {up(func(s *scene) { free(s.world.Backend) }), moves, ""},
		"first, of several":                {up(first, wants(3), backend(3, 1)), is, "3/1"},
		"while they come up":               {up(wants(3), backend(3, 2), reported(1, 1)), is, "1/1"},
		"while one of them cannot": {
			up(wants(3), backend(3, 2), reported(1, 1), joined(unpullable("backend-2", workload.ComponentBackend, current))), is,
			"3/2",
		},
		"while an old pod of them cannot": {
			up(wants(3), backend(3, 2), reported(1, 1), joined(unpullable("backend-2", workload.ComponentBackend, older))), is,
			"1/1",
		},
		"once all are up":                     {up(wants(3), backend(3, 3), reported(1, 1)), is, "3/3"},
		"while they go down one by one":       {up(wants(1), backend(3, 2), reported(3, 3)), is, "3/3"},
		"once they have gone":                 {up(wants(1), backend(1, 1), reported(3, 3)), is, "1/1"},
		"one falls":                           {up(wants(3), backend(3, 2), reported(3, 3)), is, "3/2"},
		"one falls while content moves":       {up(wants(3), backend(3, 2), reported(3, 3)), moves, "3/2"},
		"it comes back among the others":      {up(wants(3), backend(3, 3), reported(3, 2)), is, "3/3"},
		"half of what fell comes back":        {up(wants(3), backend(3, 2), reported(3, 1)), is, "3/1"},
		"all fall":                            {up(backend(1, 0), reported(1, 1)), unavailable, "1/0"},
		"some come back, and it is not ready": {up(wants(3), backend(3, 1), reported(3, 0)), unavailable, "3/1"},
		"suspended": {
			up(backend(0, 0), reported(1, 1), func(s *scene) { s.server.Spec.Suspend = true }), halted, "0/0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			snap := tc.scene.snap()
			snap.Settling = time.Second
			got, _ := report.Scalars(snap, tc.scene.plan(), tc.phase)
			if got == nil {
				if tc.want != "" {
					t.Errorf("nothing is stated, want %s", tc.want)
				}
				return
			}
			var replicas, up int32
			if _, err := fmt.Sscanf(tc.want, "%d/%d", &replicas, &up); err != nil {
				t.Fatalf("stated is %+v, want nothing", got)
			}
			want := v1alpha1ac.MCPServer("echo", "ns").WithStatus(v1alpha1ac.MCPServerStatus().
				WithURL("http://echo-proxy.ns.svc:8000/mcp").WithReplicas(replicas).WithReadyReplicas(up).
				WithSelector("app.kubernetes.io/component=backend,freehold.dev/server=echo"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Pods that neither come nor are in trouble, as where readiness never passes, are
// reported after a while: an autoscaler divides by how many there are.
func TestReplicasThatStayAreReported(t *testing.T) {
	l := newLife(t)
	l.isBorn()
	backend := func(replicas, ready int32) {
		b, changed := l.backend(), metav1.NewTime(l.now)
		b.Spec.Replicas, b.Status.Replicas, b.Status.ReadyReplicas = new(int32(5)), replicas, ready
		b.ManagedFields = append(slices.DeleteFunc(b.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Subresource == "status"
		}), metav1.ManagedFieldsEntry{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:replicas":{}}}`),
			Subresource: "status", Time: &changed,
		})
	}
	said := func(step string, after time.Duration, want, again string) {
		t.Helper()
		l.passes(step, after)
		s := read(l.stored).Status
		if got := fmt.Sprintf("%d/%d", *s.Replicas, *s.ReadyReplicas); got != want ||
			l.states[len(l.states)-1].Again != again {
			t.Errorf("%s: %s are reported, and looked at again in %q; want %s and %q", step, got,
				l.states[len(l.states)-1].Again, want, again)
		}
	}
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Replicas = new(int32(5)) })
	backend(5, 1)
	said("pods are made", time.Second, "1/1", "59s")
	said("they come up", 58*time.Second, "1/1", "1s")
	backend(5, 2)
	said("one is up", time.Second, "1/1", "59s")
	backend(5, 3)
	said("another is up", 59*time.Second, "1/1", "1s")
	said("the others do not come", time.Minute, "5/3", "")
	backend(5, 5)
	said("all are there", time.Hour, "5/5", "")
}
