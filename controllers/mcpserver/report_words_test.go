package mcpserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Webhooks may refuse in other words each time. To say so each time would wake the next pass, which is refused again.
func TestARefusalInOtherWordsIsSaidOnceAMinute(t *testing.T) {
	for name, words := range map[string]func(try int) string{
		"another port each time": func(try int) string {
			return fmt.Sprintf("denied: read tcp 10.0.0.2:%d: connection reset", 40000+try)
		},
		"two webhooks in turns": func(try int) string { return "denied by " + []string{"images", "quotas"}[try%2] },
	} {
		t.Run(name, func(t *testing.T) {
			r, s := settled(t)
			now, tries := noon, 0
			r.Now = func() time.Time { return now }
			server := read(s)
			server.Spec.Image, server.Generation = "registry.example.com/echo:2", server.Generation+1
			s.put(server)
			s.refuse = func(kind string) error {
				if kind != "Deployment" {
					return nil
				}
				tries++
				return fmt.Errorf("admission webhook %s", words(tries))
			}
			last, changes := "", 0
			pass := func() {
				if _, err := r.Reconcile(t.Context(), theServer); err != nil && !strings.Contains(err.Error(), "denied") {
					t.Fatal(err)
				}
				ready := meta.FindStatusCondition(read(s).Status.Conditions, v1alpha1.ConditionReady)
				if ready.Reason != v1alpha1.ReasonApplyFailed {
					return // on the way there
				}
				if last != "" && last != ready.Message {
					changes++
				}
				last = ready.Message
				if moving := meta.FindStatusCondition(read(s).Status.Conditions,
					v1alpha1.ConditionReconciling); moving.Message != last {
					t.Errorf("Ready says %q, and Reconciling %q", last, moving.Message)
				}
			}
			for range 30 {
				pass()
				now = now.Add(time.Second)
			}
			if tries < 20 || changes > 1 {
				t.Errorf("of %d tries within a minute %d change the words", tries, changes)
			}
			words = func(int) string { return "denied by quota 12 of 12" }
			now = now.Add(time.Minute)
			if pass(); !strings.Contains(last, "12 of 12") {
				t.Errorf("after a minute it still says %q", last)
			}
			words = func(int) string { return "denied by quota 14 of 14" }
			now = now.Add(time.Minute)
			if pass(); !strings.Contains(last, "14 of 14") {
				t.Errorf("with other numbers it still says %q", last)
			}
		})
	}
}

// A program often says first when it says something.
func TestTheLastWordsOfAContainerAreSaidOnceAMinute(t *testing.T) {
	r, s := settled(t)
	now := noon
	r.Now = func() time.Time { return now }
	s.objects[storedKey{"Deployment", "echo-proxy"}].(*appsv1.Deployment).Status.AvailableReplicas = 0
	proxy := s.objects[storedKey{"Pod", "proxy"}].(*corev1.Pod)
	proxy.Status.Conditions[0].Status = corev1.ConditionFalse
	changes, last := 0, ""
	ends := func() {
		proxy.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "proxy", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: now.Format(time.TimeOnly) + " no database"},
		}}
		rest(t, r, s)
		ready := meta.FindStatusCondition(read(s).Status.Conditions, v1alpha1.ConditionReady)
		if ready.Reason != v1alpha1.ReasonCrashLoop {
			t.Fatalf("it says %s", ready.Reason)
		}
		if last != "" && ready.Message != last {
			changes++
		}
		last = ready.Message
	}
	for range 30 {
		ends()
		now = now.Add(time.Second)
	}
	if changes > 1 {
		t.Errorf("within a minute the words change %d times", changes)
	}
	now = now.Add(time.Minute)
	if ends(); !strings.Contains(last, now.Format(time.TimeOnly)) {
		t.Errorf("after a minute it still says %q", last)
	}
}

// Nor is an Event recorded of words that the condition does not take, where another condition is news.
func TestAnEventSaysWhatTheConditionSays(t *testing.T) {
	r, s := settled(t)
	recorder, tries := events.NewFakeRecorder(100), 0
	r.Events, r.Now = recorder, func() time.Time { return noon }
	server := read(s)
	server.Spec.Image, server.Generation = "registry.example.com/echo:2", server.Generation+1
	s.put(server)
	s.refuse = func(kind string) error {
		if kind != "Deployment" {
			return nil
		}
		tries++
		return fmt.Errorf("denied: request %d", tries)
	}
	for i := range 9 {
		server := read(s)
		applied := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionBackendApplied)
		applied.Reason, applied.Message = v1alpha1.ReasonFieldConflict, fmt.Sprintf("another manager took field %d", i)
		s.put(server)
		if _, err := r.Reconcile(t.Context(), theServer); err != nil && !strings.Contains(err.Error(), "denied") {
			t.Fatal(err)
		}
	}
	close(recorder.Events)
	told := 0
	for e := range recorder.Events {
		if strings.Contains(e, "denied") {
			told++
		}
	}
	if tries < 6 || told > 2 {
		t.Errorf("of %d refusals %d Events tell", tries, told)
	}
}
