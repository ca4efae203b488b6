package snapshot

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// What has the calls answers no proxy of a claim where one of these runs, and none is ready.
func TestProxiesThatNothingAnswers(t *testing.T) {
	claim := revision.Revision{Generation: 2, Hash: "0123456789abcdef"}
	before := revision.Revision{Generation: 1, Hash: "fedcba9876543210"}
	pod := func(of revision.Revision, phase corev1.PodPhase, ready corev1.ConditionStatus, why string) corev1.Pod {
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Labels: workload.Labels("echo", workload.ComponentProxy), Annotations: of.Annotations(),
			},
			Status: corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now(),
			}}},
		}
		if why != "" {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "proxy", RestartCount: 5,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: why}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
			}}
		}
		return p
	}
	isReady := pod(claim, corev1.PodRunning, corev1.ConditionTrue, "")
	runs := pod(claim, corev1.PodRunning, corev1.ConditionFalse, "")
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		want bool
		// hangs is the content that does not answer, as a runner says; that which gets the calls is active.
		hangs string
	}{
		"there are none":         {nil, false, ""},
		"one runs":               {[]corev1.Pod{runs}, true, ""},
		"one is ready":           {[]corev1.Pod{runs, isReady}, false, ""},
		"one of before is ready": {[]corev1.Pod{runs, pod(before, corev1.PodRunning, corev1.ConditionTrue, "")}, true, ""},
		"one of before runs":     {[]corev1.Pod{pod(before, corev1.PodRunning, corev1.ConditionFalse, "")}, false, ""},
		"one is to be started":   {[]corev1.Pod{pod(claim, corev1.PodPending, corev1.ConditionFalse, "")}, false, ""},
		"one ends again and again": {
			[]corev1.Pod{pod(claim, corev1.PodRunning, corev1.ConditionFalse, "CrashLoopBackOff")}, false, "",
		},
		"one runs, and one starts": {
			[]corev1.Pod{runs, pod(claim, corev1.PodPending, corev1.ConditionFalse, "")}, true, "",
		},
		"one is ready, and what gets the calls hangs": {[]corev1.Pod{runs, isReady}, true, "active"},
		"one is ready, and other content hangs":       {[]corev1.Pod{runs, isReady}, false, "other"},
	} {
		server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "ns"}}
		server.Status.Active = &v1alpha1.ActiveBackend{BackendContent: v1alpha1.BackendContent{Slot: 1, Hash: "active"}}
		if tc.hangs != "" {
			server.Status.Runtime = &v1alpha1.RuntimeStatus{BackendHash: tc.hangs}
			server.Status.Conditions = []metav1.Condition{{Type: "BackendAnswers", Status: metav1.ConditionFalse}}
		}
		if got := Of(server, Objects{Pods: tc.pods}, time.Now()).ProxiesUnanswered(claim); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
