package snapshot

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
)

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
	lacks := func(o *Objects) { o.Backend.Spec.Replicas, o.Backend.Status.Replicas = new(int32(1)), 0 }
	for name, tc := range map[string]struct {
		edits []func(*Objects)
		after time.Duration
		again time.Duration
		lists int
		want  string
	}{
		"it lacks none": {nil, time.Minute, 0, 0, ""},
		"it has begun":  {[]func(*Objects){lacks}, 4 * time.Second, 6 * time.Second, 0, ""},
		"it lacks them": {[]func(*Objects){lacks}, time.Minute, askAgain, 1, "the last"},
		"it is somebody else's": {
			[]func(*Objects){lacks, func(o *Objects) { o.Backend.OwnerReferences = nil }},
			time.Minute,
			0, 0, "",
		},
		"a change is not seen": {
			[]func(*Objects){lacks, func(o *Objects) { o.Backend.Generation = 99 }},
			time.Minute, 0, 0,
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, objects := starts()
			for _, edit := range tc.edits {
				edit(&objects)
			}
			cluster := &asked{events: []corev1.Event{
				event(-time.Second, "of before"), event(20*time.Second, "the last"),
				event(10*time.Second, "an earlier one"),
			}}
			now := noon.Add(tc.after)
			r, told := NewReader(kinds.Servers(), nil, cluster), ""
			expect := func(again time.Duration, lists int) {
				t.Helper()
				got := r.refused(t.Context(), Of(server, objects, now), workload.Slot1)
				if got.Again != again || cluster.lists != lists || got.Words != tc.want || got.News != (got.Words != told) {
					t.Errorf("asked %d times: %+v; want %d, %s, %q", cluster.lists, got, lists, again, tc.want)
				}
				told = got.Words
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
			objects.Backend.Generation++ // that was about content which is no more
			objects.Backend.Status.ObservedGeneration = objects.Backend.Generation
			now, cluster.err, tc.want, told = now.Add(time.Second), errors.New("no answer"), "", ""
			expect(askAgain, 11)
		})
	}
}

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// starts is a server that is not ready since noon, and its backend.
func starts() (*v1alpha1.MCPServer, Objects) {
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "echo", UID: "uid"}}
	server.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdating,
		LastTransitionTime: metav1.NewTime(noon),
	}}
	backend := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "echo-backend", Generation: 2,
		OwnerReferences: []metav1.OwnerReference{{UID: "uid", Controller: new(true)}},
	}}
	backend.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 1}
	return server, Objects{Backend: backend}
}
