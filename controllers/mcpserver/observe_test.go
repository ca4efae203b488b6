package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// cached is a reader with the habit of a cache: it lists in any order.
type cached struct {
	pods    []corev1.Pod
	configs []metav1.PartialObjectMetadata
	backend *appsv1.StatefulSet
	failing string
}

func (c cached) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if c.failing == key.Name {
		return errors.New("no answer")
	}
	if backend, ok := obj.(*appsv1.StatefulSet); ok && c.backend != nil {
		c.backend.DeepCopyInto(backend)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.PodList:
		if c.failing == "pods" {
			return errors.New("no answer")
		}
		list.Items = append([]corev1.Pod{}, c.pods...)
		rand.Shuffle(len(list.Items), func(i, j int) { list.Items[i], list.Items[j] = list.Items[j], list.Items[i] })
	case *metav1.PartialObjectMetadataList:
		list.Items = c.configs
	}
	return nil
}

// Of two pods in trouble the first is named. In another order each time, each
// pass would write another reason, and that write would wake the next pass.
func TestTheSameWorldIsSeenInTheSameOrder(t *testing.T) {
	reader := cached{pods: []corev1.Pod{
		unpullable("a", workload.ComponentProxy, current),
		waiting(pod("b", workload.ComponentBackend, current), "CreateContainerConfigError", `secret "s" not found`),
		waiting(pod("c", workload.ComponentBackend, current), "ContainerCreating", ""),
	}}
	first, err := observe(t.Context(), reader, reader, echo())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := observe(t.Context(), reader, reader, echo())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.pods, again.pods); diff != "" {
			t.Fatalf("pods (-first +again):\n%s", diff)
		}
	}
}

func TestABackendIsOursByItsController(t *testing.T) {
	server := echo()
	for name, tc := range map[string]struct {
		backend *appsv1.StatefulSet
		want    bool
	}{
		"none":                {nil, false},
		"nobody's":            {backendOf(current), false},
		"this server's":       {controlled(backendOf(current), server), true},
		"an earlier server's": {controlled(backendOf(current), &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", UID: "earlier"}}), false},
	} {
		w, err := observe(t.Context(), cached{backend: tc.backend}, nil, server)
		if err != nil || w.ownBackend != tc.want || (w.backend != nil) != (tc.backend != nil) {
			t.Errorf("%s: ours is %t, %v", name, w.ownBackend, err)
		}
		if w.proxy != nil || w.account != nil || w.service != nil || w.role != nil || w.binding != nil {
			t.Errorf("%s: what is not there was found", name)
		}
	}
}

func controlled(s *appsv1.StatefulSet, by *v1alpha1.MCPServer) *appsv1.StatefulSet {
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(by, v1alpha1.SchemeGroupVersion.WithKind("MCPServer"))}
	return s
}

// A world that could be read in part only is none.
func TestAReadThatFailsEndsThePass(t *testing.T) {
	for failing, says := range map[string]string{"echo-proxy": "reading *v1.Service ns/echo-proxy: no answer", "pods": "listing pods: no answer"} {
		if _, err := observe(t.Context(), cached{failing: failing}, nil, echo()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", failing, err, says)
		}
	}
}

// good is what serves while a rollout hangs.
var good = revision.Revision{Generation: 1, Hash: "aaa"}

// hangs is a rollout whose new pod does not become ready, beside other pods.
func hangs(pods ...corev1.Pod) edit {
	return func(s *scene) {
		s.world.proxy.Status.Replicas, s.world.pods = 2, append(s.world.pods, pods...)
		surge(intstr.FromInt32(1))(s)
	}
}

func surge(n intstr.IntOrString) edit {
	return func(s *scene) {
		s.world.proxy.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &n}
	}
}

// ended is a pod that will serve no more.
func ended(how func(*corev1.Pod)) corev1.Pod {
	p := pod("ended", workload.ComponentProxy, good)
	how(&p)
	return p
}

func TestOutdatedRunConfigs(t *testing.T) {
	newer := revision.Revision{Generation: 4, Hash: "ddd"}
	theirs := config(older)
	theirs.OwnerReferences = nil
	renamed := config(older)
	renamed.Name = "a-copy"
	all := []metav1.PartialObjectMetadata{theirs, renamed, config(older), config(current), config(newer), {ObjectMeta: metav1.ObjectMeta{Name: "unmarked"}}}
	for name, tc := range map[string]struct {
		edits []edit
		want  []string
	}{
		"what is older than what runs":                    {nil, []string{"echo-run-2-bbb"}},
		"what a pod still mounts stays":                   {[]edit{func(s *scene) { s.world.pods = append(s.world.pods, pod("old", workload.ComponentProxy, older)) }}, nil},
		"what is wanted stays, without pods too":          {[]edit{func(s *scene) { s.world.pods = nil }}, []string{"echo-run-2-bbb"}},
		"nothing before the rollout":                      {[]edit{func(s *scene) { s.world.proxy.Status.UpdatedReplicas = 0 }, surge(intstr.FromInt32(1))}, nil},
		"a rollout that hangs, with all pods it may have": {[]edit{hangs(pod("good", workload.ComponentProxy, good))}, []string{"echo-run-2-bbb"}},
		"and with one that ends":                          {[]edit{hangs(pod("good", workload.ComponentProxy, good), ended(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }))}, []string{"echo-run-2-bbb"}},
		"an earlier one's pod is to come":                 {[]edit{hangs()}, nil},
		"it was evicted":                                  {[]edit{hangs(ended(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))}, nil},
		"a backend's pod takes no place":                  {[]edit{hangs(pod("backend", workload.ComponentBackend, good))}, nil},
		"a percentage is rounded up":                      {[]edit{hangs(pod("good", workload.ComponentProxy, good)), surge(intstr.FromString("25%"))}, []string{"echo-run-2-bbb"}},
		"more may come":                                   {[]edit{hangs(pod("good", workload.ComponentProxy, good)), surge(intstr.FromInt32(2))}, nil},
		"nothing before it is observed":                   {[]edit{func(s *scene) { s.world.proxy.Generation++ }}, nil},
		"nothing without a proxy":                         {[]edit{func(s *scene) { s.world.proxy = nil }}, nil},
		"nothing while another content runs":              {[]edit{func(s *scene) { s.world.proxy = proxyOf(older) }}, nil},
		"nothing without a revision":                      {[]edit{func(s *scene) { s.want.revision, s.world.proxy = revision.Revision{}, proxyOf(revision.Revision{}) }}, nil},
		"a pod with a broken revision changes nothing": {[]edit{func(s *scene) {
			p := pod("odd", workload.ComponentProxy, older)
			delete(p.Annotations, revision.AnnotationHash)
			s.world.pods = append(s.world.pods, p)
		}}, []string{"echo-run-2-bbb"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := up(tc.edits...)
			s.world.configs = all
			var got []string
			for _, c := range s.world.outdated(s.server, s.want.revision) {
				got = append(got, c.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A rollout that cannot end, as of pods that are refused, keeps few.
func TestFewRunConfigsAreKeptOfARolloutThatHangs(t *testing.T) {
	s := up(hangs())
	rev := func(n int64) revision.Revision { return revision.Revision{Generation: n, Hash: "abc"} }
	s.world.configs = []metav1.PartialObjectMetadata{config(rev(100))}
	for n := range int64(20) {
		s.world.configs = append(s.world.configs, config(rev(99-n)))
	}
	s.want.revision, s.world.proxy.Annotations = rev(100), carrying(rev(90))
	s.world.pods = []corev1.Pod{pod("serves", workload.ComponentProxy, rev(85))}
	var got []int64
	for _, c := range s.world.outdated(s.server, s.want.revision) {
		m, err := revision.Of(c.Annotations)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Generation)
	}
	// 80 is what the last rollout ended with, 85 a pod mounts, of 90 is the proxy,
	// and 95 to 99 are the last that were wanted.
	if want := []int64{81, 82, 83, 84, 86, 87, 88, 89, 91, 92, 93, 94}; !slices.Equal(got, want) {
		t.Errorf("%v go, want %v", got, want)
	}
}

// asked is a cluster in which only Events are read.
type asked struct {
	client.Reader
	events []corev1.Event
	lists  int
	err    error
}

func (a *asked) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	a.lists++
	if bound := (&client.ListOptions{}).ApplyOptions(opts); bound.Limit == 0 {
		return errors.New("listed without a limit")
	}
	found, ok := list.(*corev1.EventList)
	if !ok {
		return fmt.Errorf("a %T was listed", list)
	}
	found.Items = a.events
	return a.err
}

// Nobody is asked about a backend that lacks nothing, or has only begun.
func TestABackendThatLacksPodsIsAskedAbout(t *testing.T) {
	event := func(after time.Duration, message string) corev1.Event {
		return corev1.Event{LastTimestamp: metav1.NewTime(noon.Add(after)), Message: message}
	}
	short := func(s *scene) { s.world.backend.Spec.Replicas, s.world.backend.Status.Replicas = new(int32(1)), 0 }
	moving := said(v1alpha1.ReasonUpdating)
	for name, tc := range map[string]struct {
		edits []edit
		after time.Duration
		again time.Duration
		lists int
		want  string
	}{
		"it lacks none":         {[]edit{moving}, time.Minute, 0, 0, ""},
		"it has begun":          {[]edit{short, moving}, 4 * time.Second, 6 * time.Second, 0, ""},
		"it lacks them":         {[]edit{short, moving}, time.Minute, askAgain, 1, "the last"},
		"it is somebody else's": {[]edit{short, moving, func(s *scene) { s.world.ownBackend = false }}, time.Minute, 0, 0, ""},
		"a change is not seen":  {[]edit{short, moving, func(s *scene) { s.world.backend.Generation = 99 }}, time.Minute, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := up(tc.edits...)
			cluster := &asked{events: []corev1.Event{event(-time.Second, "of before"), event(20*time.Second, "the last"), event(10*time.Second, "an earlier one")}}
			now := noon.Add(tc.after)
			r := &Reconciler{Core: reconcile.Core{Now: func() time.Time { return now }}, live: cluster, refusals: lru.New(1)}
			p := passOver(t, r, s.server)
			expect := func(again time.Duration, lists int) {
				t.Helper()
				s.world.refusal = ""
				if got := r.ask(t.Context(), p, &s.world); got != again || cluster.lists != lists || s.world.refusal != tc.want {
					t.Errorf("again in %s, asked %d times, %q; want %s, %d, %q", got, cluster.lists, s.world.refusal, again, lists, tc.want)
				}
			}
			expect(tc.again, tc.lists)
			if tc.lists == 0 {
				return
			}
			now = now.Add(askAgain - time.Second) // woken by whatever happens
			expect(time.Second, tc.lists)
			now, cluster.events, cluster.err = now.Add(time.Second), nil, errors.New("no answer")
			expect(2*askAgain, tc.lists+1) // and the pass goes on, with what it knew
			expect(2*askAgain, tc.lists+1)
			now, cluster.err, tc.want = now.Add(2*askAgain), nil, ""
			expect(askAgain, tc.lists+2)
			for wait, lists := askAgain, tc.lists+3; lists < 10; lists++ { // the answer stays
				now, wait = now.Add(wait), min(2*wait, askAtLeast)
				expect(wait, lists)
			}
			now, cluster.events, tc.want = now.Add(askAtLeast), []corev1.Event{event(20*time.Second, "another")}, "another"
			expect(askAgain, 10)
			s.world.backend.Generation++ // that was about content which is no more
			s.world.backend.Status.ObservedGeneration = s.world.backend.Generation
			now, cluster.err, tc.want = now.Add(time.Second), errors.New("no answer"), ""
			expect(askAgain, 11)
		})
	}
}

// A server that is ready stays so where it cannot be scaled up, and an Event says why,
// once for each reason.
func TestAScaleUpThatIsRefusedIsAnEvent(t *testing.T) {
	now, recorder := noon.Add(time.Hour), events.NewFakeRecorder(10)
	refused := func(why string) []corev1.Event {
		return []corev1.Event{{LastTimestamp: metav1.NewTime(now), Message: `create Pod echo-backend-1 in StatefulSet echo-backend failed error: pods "echo-backend-1" is forbidden: ` + why}}
	}
	quota := "exceeded quota: q, requested: pods=1, used: pods=%d, limited: pods=3"
	cluster := &asked{}
	r := &Reconciler{Core: reconcile.Core{Now: func() time.Time { return now }, Events: recorder}, live: cluster, refusals: lru.New(1)}
	s := up(func(s *scene) { s.world.backend.Spec.Replicas = new(int32(2)) })
	p := passOver(t, r, s.server)
	for i, step := range []struct {
		after time.Duration
		why   string
		want  string
	}{
		{0, fmt.Sprintf(quota, 3), ""},
		{9 * time.Second, fmt.Sprintf(quota, 3), ""},
		{time.Second, fmt.Sprintf(quota, 3), "Warning PodRefused the API server refuses the pod: it is forbidden: exceeded quota: q, requested: pods=1, limited: pods=3: lower spec.replicas, or raise the quota"},
		{askAgain, fmt.Sprintf(quota, 2), ""},
		{2 * askAgain, "no", "Warning PodRefused the API server refuses the pod: it is forbidden: no"},
	} {
		now = now.Add(step.after)
		cluster.events = refused(step.why)
		r.ask(t.Context(), p, &s.world)
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if got != step.want {
			t.Errorf("step %d: told is %q, want %q", i, got, step.want)
		}
	}
	s.world.backend.Status.Replicas = 2
	if again := r.ask(t.Context(), p, &s.world); again != 0 || r.refusals.Len() != 0 {
		t.Errorf("with all pods it asks again in %s", again)
	}
}
