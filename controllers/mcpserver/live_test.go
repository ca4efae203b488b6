package mcpserver

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// asked counts what is read of an API server.
type asked struct {
	*stored
	times int
}

func (a *asked) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	a.times++
	return a.stored.Get(ctx, key, obj, opts...)
}

func (a *asked) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	a.times++
	return a.stored.List(ctx, list, opts...)
}

// behind is what a cache shows that shows nothing that is stored from now on.
func (s *stored) behind() *stored {
	return &stored{tb: s.tb, objects: maps.Clone(s.objects), versions: s.versions}
}

// operator is another process, at a time.
func (s *stored) operator(cache, live client.Reader, now time.Time) *Reconciler {
	_, own := schemas()
	applier := apply.New(s, s, apply.NewConverter(s.Scheme(), own), contract.Freehold())
	r := New(snapshot.NewReader(kinds.Servers(), cache, live), applier, &events.FakeRecorder{}, options)
	r.Now = func() time.Time { return now }
	return r
}

// late is after the deadline of a step that began at noon.
var late = noon.Add(time.Hour)

// inCandidate is a server with a rollout that waits for its candidate, of which nothing stands.
func inCandidate(t *testing.T) (*Reconciler, *stored) {
	t.Helper()
	r, s := settledWith(t, func(server *v1alpha1.MCPServer) {
		server.Spec.Rollout = &v1alpha1.RolloutSpec{Strategy: v1alpha1.StrategySuccessive}
	})
	r.Now = func() time.Time { return noon }
	server := read(s)
	server.Spec.Image = "registry.example.com/echo:2"
	s.put(server)
	rest(t, r, s)
	claim := read(s).Status.Workload
	proxy := s.objects[storedKey{"Deployment", "echo-proxy"}].DeepCopyObject().(*appsv1.Deployment)
	proxy.Status.ObservedGeneration = proxy.Generation
	s.put(proxy)
	up := pod("proxy", workload.ComponentProxy, revision.Revision{Generation: claim.Generation, Hash: claim.Hash})
	s.put(&up)
	rest(t, r, s)
	if rollout := read(s).Status.Rollout; rollout == nil || rollout.Steps[1].State != v1alpha1.StepActive {
		t.Fatalf("it does not wait for its candidate: %+v", rollout)
	}
	return r, s
}

// comes puts the candidate into slot 2, with a pod that is ready, or one that cannot be.
func (s *stored) comes(r *Reconciler, isReady bool) {
	s.tb.Helper()
	server := read(s)
	made, err := workload.Backend(contentOf(server), workload.Slot2)
	_, applied := r.Applier.As(contract.RunnerBackend).Apply(s.tb.Context(), nil, made)
	if errors.Join(err, applied) != nil {
		s.tb.Fatal(err, applied)
	}
	set := s.objects[storedKey{"StatefulSet", "echo-slot2"}].DeepCopyObject().(*appsv1.StatefulSet)
	set.SetOwnerReferences(
		[]metav1.OwnerReference{*metav1.NewControllerRef(server, v1alpha1.SchemeGroupVersion.WithKind("MCPServer"))})
	set.Status = backendOf(current).Status
	candidate := pod("candidate", "", revision.Revision{})
	candidate.Annotations = set.Spec.Template.Annotations
	candidate.Labels = workload.Labels("echo", workload.Slot2.Component())
	candidate.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
	}
	if !isReady {
		set.Status.ReadyReplicas = 0
		candidate = waiting(candidate, "InvalidImageName", "it is none")
	}
	set.Status.ObservedGeneration = set.Generation
	s.put(set)
	s.put(&candidate)
}

// answers lets the runner report that the candidate has passed its check.
func (s *stored) answers() {
	server := read(s)
	server.Status.Runtime.Candidate = &v1alpha1.CandidateStatus{Answers: true, Hash: server.Status.Rollout.Target.Hash}
	s.put(server)
}

// A rollout fails, and calls are switched, by what the API server has, whatever a cache shows.
func TestWhatSettlesARolloutIsReadLive(t *testing.T) {
	t.Run("a failure", func(t *testing.T) {
		r, s := inCandidate(t)
		s.comes(r, false)
		cache := s.behind()
		s.comes(r, true)
		pass(t, s.operator(cache, s, late))
		if now := read(s).Status; now.LastRollout != nil || now.Rollout == nil ||
			now.Rollout.Steps[1].State != v1alpha1.StepDone {
			t.Errorf("a candidate that is ready: %+v, %+v", now.Rollout, now.LastRollout)
		}
	})
	t.Run("a switch", func(t *testing.T) {
		r, s := inCandidate(t)
		s.comes(r, true)
		rest(t, r, s)
		s.answers()
		cache := s.behind()
		s.comes(r, false)
		pass(t, s.operator(cache, s, late))
		if now := read(s).Status; now.Active.Slot != 1 {
			t.Errorf("calls go to a candidate that is not ready: %+v", now.Active)
		}
	})
	t.Run("of another server", func(t *testing.T) {
		r, s := inCandidate(t)
		s.comes(r, false)
		cache := s.behind()
		server := read(s)
		server.Spec.Rollout.Paused = true
		s.put(server)
		before := s.applies
		pass(t, s.operator(cache, s, late))
		if s.applies != before {
			t.Error("it writes by a server that has moved")
		}
	})
}

// Sessions end by what proxies say then, and not by what they have said while the rollout was paused.
func TestTheEndOfSessionsIsAskedForAnew(t *testing.T) {
	r, s := inCandidate(t)
	s.comes(r, true)
	rest(t, r, s)
	s.answers()
	proxy := s.objects[storedKey{"Pod", "proxy"}].DeepCopyObject().(*corev1.Pod)
	proxy.Status.Phase = corev1.PodRunning
	s.put(proxy)
	now, inFlight := noon, int64(1)
	asks := s.operator(s, s, now)
	asks.Now = func() time.Time { return now }
	asks.reader.AskProxy = func(context.Context, *corev1.Pod) (runconfig.Routing, error) {
		status := read(s).Status
		return runconfig.Routing{
			ServerUID: string(read(s).UID), Since: noon.Add(-time.Hour),
			Active: &runconfig.RoutedContent{
				Slot: status.Active.Slot, Hash: status.Active.Hash, Generation: status.Active.Generation,
			},
			Contents: []runconfig.ContentUse{{Slot: 1, Hash: status.Rollout.From.Hash, InFlight: inFlight}},
		}, nil
	}
	paused := func(is bool) {
		server := read(s)
		server.Spec.Rollout.Paused = is
		s.put(server)
		rest(t, asks, s)
	}
	rest(t, asks, s)
	drains := func(what string) {
		t.Helper()
		if now := read(s).Status; now.Rollout == nil || now.Rollout.Steps[4].State != v1alpha1.StepActive {
			t.Fatalf("%s: %+v", what, now.Rollout)
		}
	}
	drains("a call on its way")
	now, inFlight = noon.Add(2*time.Hour), 0
	paused(true)
	drains("paused")
	now, inFlight = now.Add(time.Minute), 1 // proxies are not asked again before ten
	paused(false)
	drains("a call of a session that was quiet")
	now, inFlight = now.Add(time.Hour), 0
	rest(t, asks, s)
	if now := read(s).Status.Rollout; now == nil || now.Steps[4].State != v1alpha1.StepDone {
		t.Errorf("no session is left: %+v", now)
	}
}

func pass(t *testing.T, r *Reconciler) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), theServer); err != nil {
		t.Fatal(err)
	}
}

// What a rollout costs in reads of the API server: none at rest and while it waits, a few where it is settled.
func TestHowOftenTheAPIServerIsAsked(t *testing.T) {
	r, s := inCandidate(t)
	live := &asked{stored: s}
	waits := s.operator(s, live, noon)
	rest(t, waits, s)
	pass(t, waits)
	s.comes(r, true)
	rest(t, waits, s)
	if live.times > 0 {
		t.Errorf("while it waits: %d", live.times)
	}
	s.answers()
	rest(t, waits, s)
	if now := read(s).Status.Active; now.Slot != 2 || live.times > 5 {
		t.Errorf("a switch to slot %d: %d, want at most 5", now.Slot, live.times)
	}
}

// What stands in a slot by a plan that the cache does not show yet is left there.
func TestASlotIsEmptiedByTheServerAsItIs(t *testing.T) {
	r, s := inCandidate(t)
	s.comes(r, false)
	began := read(s).Status.Rollout
	pass(t, s.operator(s, s, late))
	cache := s.behind()
	server := read(s)
	server.Status.Rollout = began
	s.put(server)
	pass(t, s.operator(cache, s, late))
	if s.objects[storedKey{"StatefulSet", "echo-slot2"}] == nil {
		t.Error("the candidate is deleted")
	}
	s.put(read(cache))
	pass(t, s.operator(s, s, late))
	if s.objects[storedKey{"StatefulSet", "echo-slot2"}] != nil {
		t.Error("what no plan names stays")
	}
}
