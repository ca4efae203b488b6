package mcpserver

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

var theServer = ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "echo"}}

// settled is a server that is Ready, and a Reconciler that has nothing left to write: it has come up by passes of it.
func settled(tb testing.TB) (*Reconciler, *stored) {
	tb.Helper()
	return settledWith(tb, func(*v1alpha1.MCPServer) {})
}

func settledWith(tb testing.TB, change func(*v1alpha1.MCPServer)) (*Reconciler, *stored) {
	tb.Helper()
	s := newStored(tb)
	server := echo()
	change(server)
	s.create(server)
	_, own := schemas()
	applier := apply.New(s, s, apply.NewConverter(s.Scheme(), own), contract.Freehold())
	r := New(snapshot.NewReader(kinds.Servers(), s, s), applier, &events.FakeRecorder{}, options)
	rest(tb, r, s)
	s.come(applier)
	rest(tb, r, s)
	if !meta.IsStatusConditionTrue(read(s).Status.Conditions, v1alpha1.ConditionReady) {
		tb.Fatalf("the server is not Ready: %+v", read(s).Status.Conditions)
	}
	return r, s
}

// create stores a server as its user has made it.
func (s *stored) create(server *v1alpha1.MCPServer) {
	server.ResourceVersion = "1000"
	server.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "user", Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1alpha1.SchemeGroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:image":{}}}`),
	}}
	s.put(server)
}

func read(s *stored) *v1alpha1.MCPServer {
	server := &v1alpha1.MCPServer{}
	if err := s.Get(s.tb.Context(), theServer.NamespacedName, server); err != nil {
		s.tb.Fatal(err)
	}
	return server
}

// rest passes until a pass writes nothing.
func rest(tb testing.TB, r *Reconciler, s *stored) {
	tb.Helper()
	for range 10 {
		before, plans := s.applies, s.plans
		if _, err := r.Reconcile(tb.Context(), theServer); err != nil {
			tb.Fatal(err)
		}
		if s.plans > plans+1 {
			tb.Fatalf("a pass writes the plan %d times", s.plans-plans)
		}
		if s.applies == before {
			return
		}
	}
	tb.Fatal("it does not come to rest")
}

// contentOf is the content of a server as it claimed it.
func contentOf(server *v1alpha1.MCPServer) runconfig.RunConfig {
	run := workload.Render(workload.Input{Object: server}, options).Content
	run.Workload = runconfig.Workload{Generation: server.Status.Workload.Generation, Hash: server.Status.Workload.Hash}
	return run
}

// come plays the runner, and the controllers of Kubernetes: pods are up.
func (s *stored) come(applier *apply.Applier) {
	s.tb.Helper()
	server := read(s)
	rev, run := revision.Revision{Generation: server.Status.Workload.Generation, Hash: server.Status.Workload.Hash},
		contentOf(server)
	backend, err := workload.Backend(run, workload.Slot1)
	_, made := applier.As(contract.RunnerBackend).Apply(s.tb.Context(), nil, backend)
	report := v1alpha1ac.MCPServer("echo", "ns").WithStatus(v1alpha1ac.MCPServerStatus().
		WithRuntime(v1alpha1ac.RuntimeStatus().WithServerUID(string(server.UID)).WithGeneration(rev.Generation)).
		WithConditions(conditions.Stamp(nil, v1alpha1.ConditionBackendApplied, conditions.True("Applied", ""), 5, noon),
			conditions.Stamp(nil, v1alpha1.ConditionBackendAnswers, conditions.True("Answers", ""), 5, noon)))
	_, reported := applier.As(contract.RunnerReport).Apply(s.tb.Context(), server, report)
	if err := errors.Join(err, made, reported); err != nil {
		s.tb.Fatal(err)
	}
	proxy := s.objects[storedKey{"Deployment", "echo-proxy"}].(*appsv1.Deployment)
	proxy.Status = proxyOf(rev).Status
	proxy.Status.ObservedGeneration = proxy.Generation
	s.objects[storedKey{"StatefulSet", "echo-backend"}].(*appsv1.StatefulSet).Status = backendOf(rev).Status
	s.objects[storedKey{"StatefulSet", "echo-backend"}].SetOwnerReferences(
		[]metav1.OwnerReference{*metav1.NewControllerRef(server, v1alpha1.SchemeGroupVersion.WithKind("MCPServer"))})
	for name, component := range map[string]string{
		"proxy":   workload.ComponentProxy,
		"backend": workload.ComponentBackend,
	} {
		up := pod(name, component, rev)
		s.put(&up)
	}
}

// Times are for benchmarks to tell; what a pass asks of the API server and of the garbage collector is counted here.
func TestAPassOverASettledServerIsCheap(t *testing.T) {
	r, s := settled(t)
	before := s.applies
	allocations := testing.AllocsPerRun(3, func() {
		if _, err := r.Reconcile(t.Context(), theServer); err != nil {
			t.Fatal(err)
		}
	})
	if s.applies != before {
		t.Errorf("it wrote %d times", s.applies-before)
	}
	if allocations > 1000 {
		t.Errorf("it takes %.0f allocations, want at most 1000", allocations)
	}
}

// BenchmarkPass is a whole pass over a server that is as it should be.
func BenchmarkPass(b *testing.B) {
	r, s := settled(b)
	before := s.applies
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Reconcile(b.Context(), theServer); err != nil {
			b.Fatal(err)
		}
	}
	if s.applies != before {
		b.Fatalf("it wrote %d times", s.applies-before)
	}
}

// BenchmarkSnapshot is the part of a pass that reads: what the copies cost.
func BenchmarkSnapshot(b *testing.B) {
	_, s := settled(b)
	server := read(s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := snapshot.NewReader(kinds.Servers(), s, s).Read(b.Context(), server, noon, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlan renders and plans, claim hash and all.
func BenchmarkPlan(b *testing.B) {
	_, s := settled(b)
	server := read(s)
	snap, err := snapshot.NewReader(kinds.Servers(), s, s).Read(b.Context(), server, noon, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if made := planWith(snap, options); !snap.Last.HasClaimed(made.Target) {
			b.Fatal(made.Verdict.Problems)
		}
	}
}
