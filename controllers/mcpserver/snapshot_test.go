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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
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
	first, err := readWith(t, reader, reader, echo())
	if err != nil || first.FirstFailure(wanted(first)) == nil {
		t.Fatal(first, err)
	}
	for range 20 {
		again, err := readWith(t, reader, reader, echo())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.FirstFailure(wanted(first)), again.FirstFailure(wanted(again))); diff != "" {
			t.Fatalf("it names (-first +again):\n%s", diff)
		}
	}
}

// readWith reads what a server's pass looks at.
func readWith(t *testing.T, cache, live client.Reader, server *v1alpha1.MCPServer) (*snapshot.Snapshot, error) {
	t.Helper()
	s, err := snapshot.NewReader(kinds.Servers(), cache, live).Read(t.Context(), server, noon, nil)
	return s, err
}

func TestWhoControlsAChild(t *testing.T) {
	server := echo()
	for name, tc := range map[string]struct {
		backend *appsv1.StatefulSet
		want    snapshot.Control
	}{
		"none":          {nil, snapshot.Absent},
		"nobody's":      {free(backendOf(current)), snapshot.Orphan},
		"this server's": {controlled(backendOf(current), server), snapshot.Ours},
		"an earlier server's": {
			controlled(backendOf(current), &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", UID: "earlier"}}),
			snapshot.Foreign,
		},
	} {
		s, err := readWith(t, cached{backend: tc.backend}, nil, server)
		if err != nil || s.Backend().Control != tc.want || (s.Backend().Live != nil) != (tc.backend != nil) {
			t.Errorf("%s: its control is %d, %v", name, s.Backend().Control, err)
		}
		if s.Proxy().Exists() || s.Account.Exists() || s.Service.Exists() || s.Role.Exists() || s.Binding.Exists() {
			t.Errorf("%s: what is not there was found", name)
		}
	}
}

func controlled(s *appsv1.StatefulSet, by *v1alpha1.MCPServer) *appsv1.StatefulSet {
	s.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(by, v1alpha1.SchemeGroupVersion.WithKind("MCPServer")),
	}
	return s
}

func TestSnapshot_APodIsReadySinceItsReadyCondition(t *testing.T) {
	at := func(of corev1.PodConditionType, is corev1.ConditionStatus, after time.Duration) corev1.PodCondition {
		return corev1.PodCondition{Type: of, Status: is, LastTransitionTime: metav1.NewTime(noon.Add(after))}
	}
	for name, tc := range map[string]struct {
		ready corev1.PodCondition
		want  time.Time
	}{
		"ready":     {at(corev1.PodReady, corev1.ConditionTrue, 0), noon},
		"not ready": {at(corev1.PodReady, corev1.ConditionFalse, 0), time.Time{}},
	} {
		s := up(func(s *scene) {
			s.world.Pods = s.world.Pods[:1]
			s.world.Pods[0].Status.Conditions = []corev1.PodCondition{
				tc.ready, at(corev1.ContainersReady, corev1.ConditionTrue, time.Minute),
			}
		})
		if got := s.snap().Pods.Progressed(); !got.Equal(tc.want) {
			t.Errorf("%s: since %s, want %s", name, got, tc.want)
		}
	}
}

// What kubelet said before the content was written is of other content.
func TestSnapshot_ContentIsWrittenByTheManagersOfIt(t *testing.T) {
	for manager, want := range map[string]time.Time{
		string(contract.MCPServerChildren): noon, string(contract.MCPRemoteProxyChildren): noon,
		string(contract.RunnerBackend): noon, string(contract.MCPServerScale): {}, "kubectl": {},
	} {
		s := up(func(s *scene) {
			s.world.Proxy.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Time: new(metav1.NewTime(noon)),
			}}
		})
		if got := s.snap().Proxy().Written; !got.Equal(want) {
			t.Errorf("written by %s it is of %s, want %s", manager, got, want)
		}
	}
}

// A world that could be read in part only is none.
func TestAReadThatFailsEndsThePass(t *testing.T) {
	for failing, says := range map[string]string{
		"echo-proxy": "reading *v1.Service ns/echo-proxy: no answer",
		"pods":       "listing pods: no answer",
	} {
		if _, err := readWith(t, cached{failing: failing}, nil, echo()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", failing, err, says)
		}
	}
}

// good is what serves while a rollout hangs.
var good = revision.Revision{Generation: 1, Hash: "aaa"}

// hangs is a rollout whose new pod does not become ready, beside other pods.
func hangs(pods ...corev1.Pod) edit {
	return func(s *scene) {
		s.world.Proxy.Status.Replicas, s.world.Pods = 2, append(s.world.Pods, pods...)
		surge(intstr.FromInt32(1))(s)
	}
}

func surge(n intstr.IntOrString) edit {
	return func(s *scene) {
		s.world.Proxy.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &n}
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
	all := []metav1.PartialObjectMetadata{
		theirs, renamed, config(older), config(current), config(newer),
		{ObjectMeta: metav1.ObjectMeta{Name: "unmarked"}},
	}
	for name, tc := range map[string]struct {
		edits []edit
		want  []string
	}{
		"what is older than what runs": {nil, []string{"echo-run-2-bbb"}},
		"what a pod still mounts stays": {
			[]edit{func(s *scene) { s.world.Pods = append(s.world.Pods, pod("old", workload.ComponentProxy, older)) }}, nil,
		},
		"what is wanted stays, without pods too": {
			[]edit{func(s *scene) { s.world.Pods = nil }},
			[]string{"echo-run-2-bbb"},
		},
		"nothing before the rollout": {
			[]edit{func(s *scene) { s.world.Proxy.Status.UpdatedReplicas = 0 }, surge(intstr.FromInt32(1))}, nil,
		},
		"a rollout that hangs, with all pods it may have": {
			[]edit{hangs(pod("good", workload.ComponentProxy, good))},
			[]string{"echo-run-2-bbb"},
		},
		"and with one that ends": {
			[]edit{hangs(pod("good", workload.ComponentProxy, good),
				ended(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }))}, []string{"echo-run-2-bbb"},
		},
		"an earlier one's pod is to come": {[]edit{hangs()}, nil},
		"it was evicted": {
			[]edit{hangs(ended(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))}, nil,
		},
		"a backend's pod takes no place": {[]edit{hangs(pod("backend", workload.ComponentBackend, good))}, nil},
		"a percentage is rounded up": {
			[]edit{hangs(pod("good", workload.ComponentProxy, good)), surge(intstr.FromString("25%"))},
			[]string{"echo-run-2-bbb"},
		},
		"more may come": {
			[]edit{hangs(pod("good", workload.ComponentProxy, good)), surge(intstr.FromInt32(2))}, nil,
		},
		"nothing before it is observed":      {[]edit{func(s *scene) { s.world.Proxy.Generation++ }}, nil},
		"nothing without a proxy":            {[]edit{func(s *scene) { s.world.Proxy = nil }}, nil},
		"nothing while another content runs": {[]edit{func(s *scene) { s.world.Proxy = proxyOf(older) }}, nil},
		"nothing without a revision":         {[]edit{func(s *scene) { s.world.Proxy = proxyOf(revision.Revision{}) }}, nil},
		"a pod with a broken revision changes nothing": {[]edit{func(s *scene) {
			p := pod("odd", workload.ComponentProxy, older)
			delete(p.Annotations, revision.AnnotationHash)
			s.world.Pods = append(s.world.Pods, p)
		}}, []string{"echo-run-2-bbb"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := up(tc.edits...)
			s.world.RunConfigs = all
			var got []string
			wanted := current
			if strings.HasSuffix(name, "without a revision") {
				wanted = revision.Revision{}
			}
			for _, c := range s.snap().OutdatedRunConfigs(wanted) {
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
	s.world.RunConfigs = []metav1.PartialObjectMetadata{config(rev(100))}
	for n := range int64(20) {
		s.world.RunConfigs = append(s.world.RunConfigs, config(rev(99-n)))
	}
	s.world.Proxy.Annotations = carrying(rev(90))
	s.world.Pods = []corev1.Pod{pod("serves", workload.ComponentProxy, rev(85))}
	var got []int64
	for _, c := range s.snap().OutdatedRunConfigs(rev(100)) {
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

// A server that is ready stays so where it cannot be scaled up, and an Event says why, once for each reason.
func TestAScaleUpThatIsRefusedIsAnEvent(t *testing.T) {
	now, recorder := noon.Add(time.Hour), events.NewFakeRecorder(10)
	refused := func(why string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:    metav1.ObjectMeta{Namespace: "ns", Name: "refused"},
			LastTimestamp: metav1.NewTime(now),
			Message:       `create Pod echo-backend-1 in StatefulSet echo-backend failed error: pods "echo-backend-1" is forbidden: ` + why,
		}
	}
	quota := "exceeded quota: q, requested: pods=1, used: pods=%d, limited: pods=3"
	r, s := settled(t)
	r.Now, r.Events = func() time.Time { return now }, recorder
	backend := s.objects[storedKey{"StatefulSet", "echo-backend"}].(*appsv1.StatefulSet)
	backend.Spec.Replicas = new(int32(2))
	edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Replicas = new(int32(2)) })
	pass := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), theServer); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		after time.Duration
		why   string
		want  string
	}{
		{0, fmt.Sprintf(quota, 3), ""},
		{9 * time.Second, fmt.Sprintf(quota, 3), ""},
		{
			time.Second, fmt.Sprintf(quota, 3),
			"Warning PodRefused the API server refuses the pod: it is forbidden: exceeded quota: q, requested: pods=1, " +
				"limited: pods=3: lower spec.replicas, or raise the quota",
		},
		{30 * time.Second, fmt.Sprintf(quota, 2), ""},
		{2 * 30 * time.Second, "no", "Warning PodRefused the API server refuses the pod: it is forbidden: no"},
	} {
		now = now.Add(step.after)
		s.put(refused(step.why))
		pass()
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if got != step.want {
			t.Errorf("step %d: told is %q, want %q", i, got, step.want)
		}
	}
	s.objects[storedKey{"StatefulSet", "echo-backend"}].(*appsv1.StatefulSet).Status.Replicas = 2
	result, err := r.Reconcile(t.Context(), theServer)
	if err != nil || result.RequeueAfter > time.Minute {
		t.Errorf("with all pods it asks again in %s, %v", result.RequeueAfter, err)
	}
}
