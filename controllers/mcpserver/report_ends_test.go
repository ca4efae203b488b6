package mcpserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/complaints"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/workload"
)

const full = `kubelet evicts the pod: Usage of EmptyDir volume "d" exceeds the limit "1Mi": write less to the volume, or raise its sizeLimit in spec.volumes`

// evicted is what kubelet said of pods of the backend from first until last, after noon.
func evicted(first, last time.Duration) conditions.Complaint {
	return conditions.Complaint{
		Pod: "backend", UID: "gone", Component: workload.ComponentBackend, Reason: "Evicted",
		Words: `Usage of EmptyDir volume "d" exceeds the limit "1Mi".`,
		First: noon.Add(first), Last: noon.Add(last),
	}
}

// replaced is a backend whose pod was ended at noon after last, in whose place there is one since made;
// it is looked at a second later.
func replaced(c conditions.Complaint, made time.Duration) edit {
	return func(s *scene) {
		s.world.Complaints, s.now = []conditions.Complaint{c}, c.Last.Add(made+time.Second)
		s.world.Backend.Status.ReadyReplicas = 0
		s.world.Backend.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: string(contract.RunnerBackend), Operation: metav1.ManagedFieldsOperationApply,
			Time: &metav1.Time{Time: noon.Add(-time.Hour)},
		}}
		s.world.Pods[1].CreationTimestamp = metav1.NewTime(c.Last.Add(made))
		s.world.Pods[1].Status.Conditions[0].Status = corev1.ConditionFalse
		s.world.Pods[1].Status.ContainerStatuses[0].Ready = false
	}
}

// What kubelet ends is gone, and the next pod is on its way: only the Event says why.
func TestAPodThatIsEvictedIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		edit edit
		want bool
	}{
		"one after it":             {replaced(evicted(0, 0), time.Second), true},
		"one that came much later": {replaced(evicted(0, 0), 2*time.Minute), false},
		"none after it": {func(s *scene) {
			replaced(evicted(0, 0), time.Second)(s)
			s.world.Pods = s.world.Pods[:1]
		}, true},
		"none after it, for long": {
			func(s *scene) { replaced(evicted(0, 0), time.Hour)(s); s.world.Pods = s.world.Pods[:1] },
			false,
		},
		"the pod itself": {func(s *scene) {
			replaced(evicted(0, 0), 0)(s)
			s.world.Pods[1].UID = "gone"
			s.world.Pods[1].Status.Phase = corev1.PodFailed
		}, true},
		"one of older content": {replaced(evicted(-2*time.Hour, -2*time.Hour), time.Second), false},
		"of a proxy": {replaced(func() conditions.Complaint {
			c := evicted(0, 0)
			c.Component = workload.ComponentProxy
			return c
		}(), time.Second), false},
		"one that cannot start now": {func(s *scene) {
			replaced(evicted(0, 0), time.Second)(s)
			s.world.Pods[1] = unpullable("backend", workload.ComponentBackend, current)
		}, false},
	} {
		s := up(tc.edit, said(v1alpha1.ReasonUnavailable))
		got := s.ready(nil)
		if (got == conditions.False(v1alpha1.ReasonEvicted, full)) != tc.want {
			t.Errorf("%s: it says %v", name, got)
		}
	}
}

// A pod that gets ready and is evicted again is no progress, whatever Ready said in between.
func TestEvictionsForEverAreStalled(t *testing.T) {
	minute := time.Minute
	for name, tc := range map[string]struct {
		first, last time.Duration
		want        string
	}{
		"the first":                        {0, 0, v1alpha1.ConditionReconciling},
		"for a while":                      {0, 9 * minute, v1alpha1.ConditionReconciling},
		"for as long as it may take":       {0, 10 * minute, v1alpha1.ConditionStalled},
		"for a day":                        {0, 24 * time.Hour, v1alpha1.ConditionStalled},
		"only before a change of the spec": {-100 * minute, -61 * minute, v1alpha1.ConditionReconciling},
	} {
		s := up(replaced(evicted(tc.first, tc.last), time.Second))
		s.world.Pods[0].Status.Conditions[0].LastTransitionTime = metav1.NewTime(s.now)
		if got := moves(s.snap(), v1alpha1.ReasonEvicted); got != tc.want {
			t.Errorf("%s: it is %s", name, got)
		}
		// The next pod is ready.
		s.world.Backend.Status.ReadyReplicas = 1
		found := s.says(nil)
		stalled, is := found[v1alpha1.ConditionStalled]
		if is != (tc.want == v1alpha1.ConditionStalled) ||
			is && (stalled.Reason != v1alpha1.ReasonEvicted || !strings.HasSuffix(stalled.Message, full)) ||
			found[v1alpha1.ConditionReady] != isUp {
			t.Errorf("%s: once the next one is ready it says %v", name, found)
		}
		due := plan.Wait{Phase: v1alpha1.PhaseServing}.Deadline(s.snap())
		if want := tc.first != tc.last && tc.first == 0; (due > 9*minute && due < 10*minute) != want {
			t.Errorf("%s: it is looked at again after %s", name, due)
		}
		s.now = s.now.Add(10 * minute)
		if f, is := s.says(nil)[v1alpha1.ConditionStalled]; is {
			t.Errorf("%s: long after the last one it says %v", name, f)
		}
	}
}

// Each eviction is named from the pod's own status, whether or not kubelet has an Event left, and costs as many writes
// as the last.
func TestEvictionsEachMinuteCostAFewWritesEach(t *testing.T) {
	const most = 4 // Ready goes down and up again, and with it the number of ready replicas
	l, said := newLife(t), &complaints.Store{}
	l.r.reader.Complaints = said
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.ProgressDeadlineSeconds = new(int32(120)) })
	l.passes("it starts", 0)
	l.rollOut()
	for i := range l.backend().ManagedFields {
		l.backend().ManagedFields[i].Time = new(metav1.NewTime(l.now))
	}
	l.passes("it is ready", time.Second)
	ready := func(p *corev1.Pod, is corev1.ConditionStatus, n int32) {
		p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = is, metav1.NewTime(l.now)
		l.backend().Status.ReadyReplicas = n
		l.put(p)
	}
	says := func(reason string) {
		t.Helper()
		if c := meta.FindStatusCondition(read(l.stored).Status.Conditions, v1alpha1.ConditionReady); c.Reason != reason {
			t.Errorf("at %s it says %s, want %s", l.now.Sub(noon), c.Reason, reason)
		}
	}
	older := l.objects[storedKey{"Pod", "backend"}].(*corev1.Pod)
	for i := range 5 {
		before := l.applies
		delete(l.objects, storedKey{"Pod", older.Name})
		ended := older.DeepCopy()
		ended.Name, ended.UID = "echo-backend-0", types.UID(fmt.Sprint("u", i))
		ended.Status.Phase, ended.Status.Reason, ended.Status.Message = corev1.PodFailed, v1alpha1.ReasonEvicted, "full"
		ready(ended, corev1.ConditionFalse, 0)
		said.OfPods().OnUpdate(older, ended)
		l.passes("its pod is evicted", 0)
		says(v1alpha1.ReasonEvicted)
		next := older.DeepCopy()
		next.Name, next.UID, next.CreationTimestamp = ended.Name, types.UID(fmt.Sprint("u", i+1)), metav1.NewTime(l.now)
		ready(next, corev1.ConditionFalse, 0)
		l.passes("the next one is made", time.Second)
		says(v1alpha1.ReasonEvicted)
		l.now = l.now.Add(5 * time.Second)
		ready(next, corev1.ConditionTrue, 1)
		l.passes("and is ready", 0)
		says(v1alpha1.ReasonReady)
		stalled := meta.IsStatusConditionTrue(read(l.stored).Status.Conditions, v1alpha1.ConditionStalled)
		if want := i >= 2; stalled != want { // the third is more than two minutes after the first
			t.Errorf("after %d it is stalled: %t", i+1, stalled)
		}
		if n := l.applies - before; n > most {
			t.Errorf("eviction %d costs %d writes", i+1, n)
		}
		older = next
		l.now = l.now.Add(time.Minute)
	}
}

// The deadline of one that shows Reconciling counts from the first eviction.
func TestTheDeadlineOfEvictionsIsThatOfTheFirst(t *testing.T) {
	s := up(replaced(evicted(0, 5*time.Minute), time.Second), said(v1alpha1.ReasonEvicted),
		condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonEvicted, ""))
	moving := &s.server.Status.Conditions[1]
	moving.ObservedGeneration, moving.LastTransitionTime = s.server.Generation, metav1.NewTime(noon.Add(5*time.Minute))
	if got := waitFor(v1alpha1.ReasonEvicted).Deadline(s.snap()); got != 5*time.Minute-2*time.Second {
		t.Errorf("it is looked at again after %s", got)
	}
}

// A container that its probe kills again and again gets ready in between, too.
func TestAProbeThatKillsForEverIsStalled(t *testing.T) {
	kills := conditions.Complaint{
		Pod: "backend", Component: workload.ComponentBackend, Container: "c", Reason: "Unhealthy",
		Words: "Liveness probe failed: HTTP probe failed with statuscode: 404",
		First: noon.Add(-11 * time.Minute), Last: noon,
	}
	for first, want := range map[time.Duration]string{
		-11 * time.Minute: v1alpha1.ConditionStalled,
		-time.Minute:      v1alpha1.ConditionReconciling,
	} {
		kills.First = noon.Add(first)
		s := up(func(s *scene) {
			s.world.Complaints, s.now, s.world.Backend.Status.ReadyReplicas = []conditions.Complaint{kills}, noon, 0
			s.world.Pods[1].Status.Conditions[0].Status = corev1.ConditionFalse
			s.world.Pods[1].Status.ContainerStatuses[0].Ready = false
			s.world.Pods[1].Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: 2, StartedAt: metav1.NewTime(noon.Add(-30 * time.Second)), FinishedAt: metav1.NewTime(noon),
			}
		})
		answer := s.ready(nil)
		if answer.Reason != v1alpha1.ReasonProbeFailed ||
			!strings.Contains(answer.Message,
				"is restarted by its livenessProbe: HTTP probe failed with statuscode: 404: correct "+
					"spec.podTemplate.spec.containers[name=c].livenessProbe") {
			t.Errorf("it says %v", answer)
		}
		if got := moves(s.at(noon), answer.Reason); got != want {
			t.Errorf("after %s it is %s, want %s", -first, got, want)
		}
	}
}

// A StatefulSet counts a pod a moment after that got ready again: nothing is said of that moment.
func TestAPodThatIsReadyBeforeItIsCountedServes(t *testing.T) {
	for component, uncounted := range map[string]edit{
		workload.ComponentBackend: func(s *scene) { s.world.Backend.Status.ReadyReplicas = 0 },
		workload.ComponentProxy:   func(s *scene) { s.world.Proxy.Status.AvailableReplicas = 0 },
	} {
		for _, before := range []string{
			v1alpha1.ReasonProbeFailed, v1alpha1.ReasonEvicted, v1alpha1.ReasonUnavailable, v1alpha1.ReasonReady,
		} {
			s := up(said(before), answered(metav1.ConditionTrue, "Answers", ""), uncounted, func(s *scene) {
				for i := range s.world.Pods {
					s.world.Pods[i].Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon)
				}
			})
			if got := s.ready(nil); got != isUp {
				t.Errorf("a %s that is not counted, after %s: %v", component, before, got)
			}
			s.world.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse
			s.world.Pods[1].Status.Conditions[0].Status = corev1.ConditionFalse
			if got := s.ready(nil); got == isUp {
				t.Errorf("a %s that is not ready, after %s: %v", component, before, got)
			}
		}
	}
}

// What an image has to listen on is said where kubelet says that nobody does.
func TestWhatIsWaitedForIsSaidWhereItIsKnown(t *testing.T) {
	listens := `; container "server" takes no connection at port 8080 (connect: connection refused): a pod of the backend is ready once its image listens on spec.port, on all addresses`
	refused := complains("backend", "Unhealthy", "Readiness probe failed: dial tcp :8080: connect: connection refused")
	refused.Container = "server"
	for name, tc := range map[string]struct {
		transport  v1alpha1.Transport
		complaints []conditions.Complaint
		want       string
	}{
		"nothing is said": {v1alpha1.TransportStreamableHTTP, nil, ""},
		"nobody listens":  {v1alpha1.TransportStreamableHTTP, []conditions.Complaint{refused}, listens},
		"our bridge": {
			v1alpha1.TransportStdio,
			[]conditions.Complaint{refused},
			strings.TrimSuffix(listens,
				": a pod of the backend is ready once its image listens on spec.port, on all addresses"),
		},
	} {
		s := up(func(s *scene) {
			s.server.Spec.Transport, s.world.Complaints, s.world.Backend.Status.ReadyReplicas = tc.transport, tc.complaints, 0
			s.world.Pods[1] = unready(s.world.Pods[1])
			s.world.Pods[1].Status.ContainerStatuses[0].Name = "server"
		}, said(v1alpha1.ReasonStarting))
		want := starting
		want.Message += tc.want
		if got := s.ready(nil); got != want {
			t.Errorf("%s: it says %v, want %v", name, got, want)
		}
	}
}
