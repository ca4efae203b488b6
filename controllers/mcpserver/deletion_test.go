package mcpserver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Calls in flight end before what they call.
func TestTheOrderOfAStop(t *testing.T) {
	grace := func(seconds int64) edit {
		return func(s *scene) { s.world.Proxy.Spec.Template.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	stopped := func(s *scene) { s.world.Proxy.Spec.Replicas = new(int32(0)) }
	ended := func(s *scene) { s.world.Pods = s.world.Pods[1:] } // the proxy's
	going := metav1.NewTime(noon)
	backendGoes := func(s *scene) { s.world.Backend.DeletionTimestamp = &going }
	closed := func(s *scene) { s.world.Policy = policyOf("uid") }
	held := func(by ...string) edit { return func(s *scene) { s.server.Finalizers = by } }
	for name, tc := range map[string]struct {
		edits []edit
		after time.Duration
		want  string
	}{
		"first the proxies are stopped": {nil, 0, "StopProxies"},
		"also if their number is not stated": {
			[]edit{func(s *scene) { s.world.Proxy.Spec.Replicas = nil }},
			0,
			"StopProxies",
		},
		"but not for ever":        {nil, time.Hour, "DeleteBackend"},
		"then the proxy pods end": {[]edit{stopped}, 0, "AwaitProxies"},
		"also those that are ending": {
			[]edit{stopped, func(s *scene) { s.world.Pods[0].DeletionTimestamp = &going }}, 0, "AwaitProxies",
		},
		"also those of older content": {
			[]edit{stopped, func(s *scene) { s.world.Pods[0] = pod("old", workload.ComponentProxy, older) }}, 0, "AwaitProxies",
		},
		"also after the Deployment is gone": {[]edit{func(s *scene) { s.world.Proxy = nil }}, 0, "AwaitProxies"},
		"also while the Deployment is going": {
			[]edit{func(s *scene) { s.world.Proxy.DeletionTimestamp = &going }},
			0,
			"AwaitProxies",
		},
		"for as long as patience lasts":      {[]edit{stopped}, 110*time.Second - 1, "AwaitProxies"},
		"which is longer for a longer grace": {[]edit{stopped, grace(600)}, 10 * time.Minute, "AwaitProxies"},
		"and no longer":                      {[]edit{stopped}, 110 * time.Second, "DeleteBackend"},
		"then the backend goes":              {[]edit{stopped, ended}, 0, "DeleteBackend"},
		"whose pods nobody waits for": {
			[]edit{stopped, ended, func(s *scene) { s.world.Pods = nil }},
			0,
			"DeleteBackend",
		},
		"and the server once it is gone":           {[]edit{stopped, ended, noBackend}, 0, "ReleaseFinalizer"},
		"or is going":                              {[]edit{stopped, ended, backendGoes}, 0, "ReleaseFinalizer"},
		"but behind its policy its pods end first": {[]edit{stopped, ended, noBackend, closed}, 0, "AwaitBackend"},
		"also while the backend is going":          {[]edit{stopped, ended, backendGoes, closed}, 0, "AwaitBackend"},
		"also if the proxies did not end":          {[]edit{noBackend, closed}, time.Hour, "AwaitBackend"},
		"pods that have ended open nothing": {
			[]edit{stopped, ended, noBackend, closed, func(s *scene) { s.world.Pods[0].Status.Phase = corev1.PodFailed }},
			0,
			"DeletePolicy",
		},
		"then their policy goes": {
			[]edit{stopped, ended, noBackend, closed, func(s *scene) { s.world.Pods = nil }}, 0, "DeletePolicy",
		},
		"but another's policy holds nobody": {
			[]edit{stopped, ended, noBackend, closed, func(s *scene) { free(s.world.Policy) }}, 0, "ReleaseFinalizer",
		},
		"pods of another's backend do not end": {
			[]edit{stopped, ended, closed, func(s *scene) { free(s.world.Backend) }},
			0, "DeletePolicy",
		},
		"or is not this server's": {
			[]edit{stopped, ended, func(s *scene) { free(s.world.Backend) }},
			0,
			"ReleaseFinalizer",
		},
		"a server without anything goes at once": {[]edit{func(s *scene) { s.world = world{} }}, 0, "ReleaseFinalizer"},
		"a backend without a proxy goes at once": {
			[]edit{ended, func(s *scene) { s.world.Proxy = nil }},
			0,
			"DeleteBackend",
		},
		"pods of no component hold nobody": {
			[]edit{stopped, func(s *scene) { s.world.Pods = []corev1.Pod{pod("x", "", current)} }, noBackend},
			0,
			"ReleaseFinalizer",
		},
		"no patience is left for what cannot come": {[]edit{stopped, noBackend}, time.Hour, "ReleaseFinalizer"},
		"in the foreground without our finalizer":  {[]edit{held(metav1.FinalizerDeleteDependents)}, 0, "StopProxies"},
		"its objects stay if they are orphaned": {
			[]edit{held(contract.Finalizer, metav1.FinalizerOrphanDependents)}, 0, "OrphanChildren",
		},
		"nothing holds it": {[]edit{held()}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := up(tc.edits...)
			s.server.DeletionTimestamp, s.now = new(metav1.NewTime(noon)), noon.Add(tc.after)
			s.stops = snapshot.Stops{Server: noon, Backend: s.now}
			got := ""
			if steps := s.plan().Steps; len(steps) > 0 {
				got = strings.TrimPrefix(fmt.Sprintf("%T", steps[0].Action), "plan.")
			}
			if got != tc.want {
				t.Errorf("the step is %s, want %s", got, tc.want)
			}
		})
	}
}

// The API server's clock and ours may differ by an hour, either way.
func TestPatienceIsByOurOwnClock(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		l := newLife(t)
		l.isBorn()
		server := read(l.stored)
		server.DeletionTimestamp = new(metav1.NewTime(l.now.Add(skew)))
		l.put(server)
		backend := func() bool { return l.objects[storedKey{"StatefulSet", "echo-backend"}] != nil }
		l.passes("it is deleted", 0)
		if l.passes("its proxies do not end", 110*time.Second-1); !backend() {
			t.Errorf("with a clock that is off by %s the backend goes too early", skew)
		}
		if l.passes("nor now", 1); backend() {
			t.Errorf("with a clock that is off by %s the backend stays", skew)
		}
	}
}

// Scaling to zero is a stop like suspension: what drains is not cut.
func TestABackendThatIsNotWantedWaitsForItsProxies(t *testing.T) {
	stopped := func(s *scene) { s.world.Proxy.Spec.Replicas = new(int32(0)) }
	suspended := func(s *scene) { s.server.Spec.Suspend = true }
	none := func(s *scene) { s.server.Spec.Replicas = new(int32(0)) }
	for name, tc := range map[string]struct {
		edits []edit
		after time.Duration
		want  time.Duration
	}{
		"a server that runs waits for nothing": {nil, 0, 0},
		"nor one whose proxies alone stop":     {[]edit{stopped}, 0, 0},
		"suspended, it waits for the stop":     {[]edit{suspended}, 0, (110 * time.Second)},
		"and for the pods": {
			[]edit{suspended, stopped},
			10 * time.Second,
			(110 * time.Second) - 10*time.Second,
		},
		"which are given their time":       {[]edit{suspended, stopped}, (110 * time.Second), 0},
		"scaled to zero, it waits as well": {[]edit{none, stopped}, 0, (110 * time.Second)},
		"until no proxy pod is left":       {[]edit{none, stopped, func(s *scene) { s.world.Pods = s.world.Pods[1:] }}, 0, 0},
	} {
		s := up(tc.edits...)
		s.now, s.stops.Server = noon.Add(tc.after), noon
		if made := s.plan(); made.Wake != tc.want || tc.want > 0 && len(actions[plan.ScaleBackend](made)) > 0 {
			t.Errorf("%s: it waits %s, want %s", name, made.Wake, tc.want)
		}
	}
}

// How long a suspended server waited says nothing of the calls that its deletion ends.
func TestADeletionHasPatienceOfItsOwn(t *testing.T) {
	l := newLife(t)
	l.isBorn()
	l.refuse = func(kind string) error {
		if kind == "Deployment" {
			return apierrors.NewBadRequest("not today")
		}
		return nil
	}
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Suspend = true })
	l.passes("its proxies cannot be stopped", time.Second)
	l.refuse = nil
	server := read(l.stored)
	server.DeletionTimestamp = new(metav1.NewTime(l.now))
	l.put(server)
	l.passes("it is deleted an hour later", time.Hour)
	if n := *l.proxy().Spec.Replicas; n != 0 || l.objects[storedKey{"StatefulSet", "echo-backend"}] == nil {
		t.Errorf("it has %d proxies, and backend %v", n, l.objects[storedKey{"StatefulSet", "echo-backend"}])
	}
}

// The garbage collector takes the NetworkPolicy with the server, so the server stays
// while a backend pod may still answer, or connect to what the policy forbids.
func TestADeletedServerStaysInFrontOfItsBackendPods(t *testing.T) {
	for name, ends := range map[string]func(*life){
		"until they have ended": func(l *life) { delete(l.objects, storedKey{"Pod", "backend"}) },
		"but not for ever":      func(l *life) { l.now = l.now.Add(300*time.Second + snapshot.SlowNode) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t)
			l.spec(func(s *v1alpha1.MCPServer) {
				s.Spec.Network = &v1alpha1.NetworkSpec{BackendIngress: v1alpha1.BackendIngressProxyOnly}
			})
			l.passes("it starts", 0)
			l.rollOut()
			l.passes("it is ready", time.Second)
			l.objects[storedKey{"Pod", "backend"}].(*corev1.Pod).Spec.TerminationGracePeriodSeconds = new(int64(300))
			server := read(l.stored)
			server.DeletionTimestamp = new(metav1.NewTime(l.now))
			l.put(server)
			l.passes("it is deleted", time.Second)
			delete(l.objects, storedKey{"Pod", "proxy"})
			l.passes("its calls have ended", time.Second)
			l.passes("its backend is deleted", time.Second)
			l.passes("its pods have not ended", 300*time.Second)
			if l.objects[storedKey{"StatefulSet", "echo-backend"}] != nil {
				t.Fatal("the backend stands")
			}
			if len(read(l.stored).Finalizers) != 1 || l.states[len(l.states)-1].Again == "" {
				t.Fatalf("the server goes before its backend pods: %+v", l.states[len(l.states)-1])
			}
			ends(l)
			l.passes("it goes", time.Second)
			if held := read(l.stored).Finalizers; len(held) > 0 {
				t.Errorf("it still has %v", held)
			}
		})
	}
}

// A deletion that the API server refuses is said, is tried again, and goes on by itself.
func TestARefusedDeletionIsSaid(t *testing.T) {
	for _, kind := range []string{"deletion of StatefulSet", "deletion of NetworkPolicy", "finalizer"} {
		t.Run(kind, func(t *testing.T) {
			r, s := settledWith(t, func(server *v1alpha1.MCPServer) {
				server.Spec.Network = &v1alpha1.NetworkSpec{BackendIngress: v1alpha1.BackendIngressProxyOnly}
			})
			server := read(s)
			server.DeletionTimestamp = new(metav1.NewTime(noon))
			s.put(server)
			s.objects[storedKey{"Deployment", "echo-proxy"}].(*appsv1.Deployment).Spec.Replicas = new(int32(0))
			delete(s.objects, storedKey{"Pod", "proxy"})
			delete(s.objects, storedKey{"Pod", "backend"})
			s.refuse = func(of string) error {
				if of == kind {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "these"}, "echo", errors.New("not today"))
				}
				return nil
			}
			now := noon.Add(time.Hour)
			r.Now = func() time.Time { return now }
			var result ctrl.Result
			passes := func(n int) {
				for range n {
					var err error
					if result, err = r.Reconcile(t.Context(), theServer); err != nil {
						t.Fatal(err)
					}
				}
			}
			passes(4)
			early := result.RequeueAfter
			saysRefused(t, s, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled)
			if passes(1); result.RequeueAfter != 2*early || early < time.Second {
				t.Errorf("it comes back after %s, and before after %s", result.RequeueAfter, early)
			}
			now = now.Add(reconcile.ProgressDeadline - time.Second)
			passes(2)
			saysRefused(t, s, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled)
			now = now.Add(time.Second)
			passes(3)
			saysRefused(t, s, v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling)
			s.refuse = nil
			for range 4 {
				if _, err := r.Reconcile(t.Context(), theServer); err != nil {
					t.Fatal(err)
				}
			}
			if held := read(s).Finalizers; len(held) > 0 {
				t.Errorf("it stays, with finalizers %v", held)
			}
		})
	}
}

// saysRefused holds a server whose deletion is refused to the condition that it shows, and to the one that it does not.
func saysRefused(t *testing.T, s *stored, movement, other string) {
	t.Helper()
	all := read(s).Status.Conditions
	for _, of := range []string{v1alpha1.ConditionReady, movement} {
		c := meta.FindStatusCondition(all, of)
		if c == nil || c.Reason != v1alpha1.ReasonApplyFailed || !strings.Contains(c.Message, "not today") {
			t.Errorf("%s says %+v", of, c)
		}
	}
	if c := meta.FindStatusCondition(all, other); c != nil && c.Status == metav1.ConditionTrue ||
		len(read(s).Finalizers) == 0 {
		t.Errorf("%s says %+v, the finalizers are %v", other, c, read(s).Finalizers)
	}
	if phase := read(s).Status.Phase; phase != v1alpha1.PhaseStopping {
		t.Errorf("the phase is %q", phase)
	}
}

// Nobody else removes it, so it goes also where the cache has cut it.
func TestAPolicyThatAServerLeftGoesHoweverLargeItIs(t *testing.T) {
	r, s := settled(t)
	delete(s.objects, storedKey{"MCPServer", "echo"})
	delete(s.objects, storedKey{"Pod", "backend"})
	left := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "echo-backend", UID: "left", OwnerReferences: ofEcho()},
	}
	left.OwnerReferences[0].APIVersion = v1alpha1.SchemeGroupVersion.String()
	s.put(left)
	cache := newStored(t)
	cut := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "echo-backend", UID: "left"}}
	reconcile.Cut(cut, "")
	cache.put(cut)
	r.reader.Cache = cache
	s.refuse = func(string) error { return errors.New("not today") }
	if _, err := r.Reconcile(t.Context(), theServer); err == nil {
		t.Error("that it stays is not told")
	}
	s.refuse = nil
	if _, err := r.Reconcile(t.Context(), theServer); err != nil ||
		s.objects[storedKey{"NetworkPolicy", "echo-backend"}] != nil {
		t.Errorf("it stays (%v)", err)
	}
}

// What an earlier server of the name left goes, and nothing else does.
func TestLeftover_IsOfAnEarlierServerOfTheName(t *testing.T) {
	owner := func(change func(*metav1.OwnerReference)) func(*stored, *networkingv1.NetworkPolicy) {
		return func(_ *stored, p *networkingv1.NetworkPolicy) { change(&p.OwnerReferences[0]) }
	}
	there := func(uid types.UID) func(*stored, *networkingv1.NetworkPolicy) {
		return func(live *stored, _ *networkingv1.NetworkPolicy) {
			server := echo()
			server.UID = uid
			live.put(server)
		}
	}
	going := func(_ *stored, p *networkingv1.NetworkPolicy) { p.DeletionTimestamp = &metav1.Time{} }
	for name, tc := range map[string]struct {
		change func(*stored, *networkingv1.NetworkPolicy)
		pod    string // the component of a pod that runs
		goes   bool
	}{
		"nothing else is there":     {func(*stored, *networkingv1.NetworkPolicy) {}, "", true},
		"a proxy runs":              {func(*stored, *networkingv1.NetworkPolicy) {}, workload.ComponentProxy, true},
		"its backend runs":          {func(*stored, *networkingv1.NetworkPolicy) {}, workload.ComponentBackend, false},
		"a later server is there":   {there("later"), workload.ComponentBackend, true},
		"the cache is behind":       {there("uid"), "", false},
		"it goes already":           {going, "", false},
		"it has no owner":           {func(_ *stored, p *networkingv1.NetworkPolicy) { p.OwnerReferences = nil }, "", false},
		"of another kind":           {owner(func(o *metav1.OwnerReference) { o.Kind = "MCPRemoteProxy" }), "", false},
		"of a server of other name": {owner(func(o *metav1.OwnerReference) { o.Name = "other" }), "", false},
		"of others' kind of a name": {owner(func(o *metav1.OwnerReference) { o.APIVersion = "kagent.dev/v1" }), "", false},
		"of an earlier API version": {owner(func(o *metav1.OwnerReference) { o.APIVersion = "freehold.dev/v1" }), "", true},
		"with an owner beside it":   {owner(func(o *metav1.OwnerReference) { o.Controller = nil }), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			cache, live, policy := newStored(t), newStored(t), policyOf("uid")
			policy.OwnerReferences[0].APIVersion = v1alpha1.SchemeGroupVersion.String()
			tc.change(live, policy)
			cache.put(policy)
			if tc.pod != "" {
				runs := pod("runs", tc.pod, current)
				cache.put(&runs)
			}
			reader := snapshot.NewReader(kinds.Servers(), cache, live)
			left, err := reader.Leftover(t.Context(), theServer.NamespacedName)
			if err != nil || (left != nil) != tc.goes {
				t.Errorf("left is %v, %v; it goes: %t", left, err, tc.goes)
			}
		})
	}
}

// Pods that have ended are no news.
func TestPodsRemain_IsAnEventWhereSomeDo(t *testing.T) {
	for want, action := range map[string]func(left int) plan.Action{
		"Warning ProxyPodsRemain 1 proxy pods":     func(left int) plan.Action { return plan.DeleteBackend{Left: left} },
		"Warning BackendPodsRemain 1 backend pods": func(left int) plan.Action { return plan.DeletePolicy{Left: left} },
	} {
		r, s := settled(t)
		recorder := events.NewFakeRecorder(10)
		r.Events = recorder
		pass, _, err := r.Begin(t.Context(), read(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		report.PodsRemain(pass, action(0))
		report.PodsRemain(pass, action(1))
		close(recorder.Events)
		if told := <-recorder.Events; !strings.HasPrefix(told, want) || len(recorder.Events) > 0 {
			t.Errorf("told is %q, want one that begins with %q", told, want)
		}
	}
}
