package mcpserver

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/controllers/complaints"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// podOf is a pod of the server with a key.
func podOf(key string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", UID: "1", ResourceVersion: "1", Labels: map[string]string{workload.LabelServer: key},
	}}
}

func newQueue() queue {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
}

// passes are those that are due after a while, and no longer wait.
func passes(q queue, after time.Duration) (due []string) {
	time.Sleep(after)
	synctest.Wait()
	for q.Len() > 0 {
		next, _ := q.Get()
		q.Done(next)
		due = append(due, next.String())
	}
	slices.Sort(due)
	return due
}

// Each event of a child wakes its server, by itself, and no object of the same name of another kind.
func TestAnEventOfAChildWakesItsServer(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   kinds.Kind
		before string // empty for none
		after  string
		want   []string
	}{
		"it is made":                       {kinds.Servers(), "", "echo", []string{"ns/echo"}},
		"it changes":                       {kinds.Servers(), "echo", "echo", []string{"ns/echo"}},
		"it goes":                          {kinds.Servers(), "echo", "", []string{"ns/echo"}},
		"it comes to another server":       {kinds.Servers(), "echo", "other", []string{"ns/echo", "ns/other"}},
		"it is another kind's":             {kinds.Servers(), "echo.remote", "echo.remote", nil},
		"it is of the other kind":          {kinds.RemoteProxies(), "echo.remote", "echo.remote", []string{"ns/echo"}},
		"it is a server's, and not theirs": {kinds.RemoteProxies(), "", "echo", nil},
		"it is of a kind that we lack":     {kinds.Servers(), "", "echo.widget", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			wakes, q := (&Reconciler{kind: tc.kind}).children(), newQueue()
			defer q.ShutDown()
			switch ctx := t.Context(); {
			case tc.before == "":
				wakes.Create(ctx, event.CreateEvent{Object: podOf(tc.after)}, q)
			case tc.after == "":
				wakes.Delete(ctx, event.DeleteEvent{Object: podOf(tc.before)}, q)
			default:
				wakes.Update(ctx, event.UpdateEvent{ObjectOld: podOf(tc.before), ObjectNew: podOf(tc.after)}, q)
			}
			if early := passes(q, 0); early != nil {
				t.Errorf("%s: %v wait for no other event", name, early)
			}
			if got := passes(q, gathering); !slices.Equal(got, tc.want) {
				t.Errorf("%s: it wakes %v, want %v", name, got, tc.want)
			}
		})
	}
}

// A rollout is many events of children, and few passes: those that come together wake one, and so does what there is
// when the process starts, at once. A pass that is due later does not keep them waiting.
func TestEventsOfChildrenThatComeTogetherAreOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wakes, q := (&Reconciler{kind: kinds.Servers()}).children(), newQueue()
		defer q.ShutDown()
		child := podOf("echo")
		wakes.Create(t.Context(), event.CreateEvent{Object: child, IsInInitialList: true}, q)
		if got := passes(q, 0); len(got) != 1 {
			t.Errorf("at the start it waits: %d passes", len(got))
		}
		q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "echo"}}, time.Hour)
		for range 20 {
			wakes.Create(t.Context(), event.CreateEvent{Object: child}, q)
			wakes.Update(t.Context(), event.UpdateEvent{ObjectOld: child, ObjectNew: child}, q)
			wakes.Delete(t.Context(), event.DeleteEvent{Object: child}, q)
		}
		if got := passes(q, gathering/2); got != nil {
			t.Errorf("it does not wait for others: %d passes", len(got))
		}
		wakes.Update(t.Context(), event.UpdateEvent{ObjectOld: child, ObjectNew: child}, q)
		if got := passes(q, gathering/2); len(got) != 1 {
			t.Errorf("61 events wake %d passes, want 1, as long after the first as the constant says", len(got))
		}
	})
}

// A pod of which nothing is kept that is new wakes nobody; one that was made again under its name does, though it is
// equal but for that, and so does each write to another object.
func TestAPodThatDidNotMoveWakesNobody(t *testing.T) {
	newer := podOf("echo")
	newer.ResourceVersion = "2"
	again, runs := newer.DeepCopy(), newer.DeepCopy()
	again.UID, runs.Status.Phase = "2", corev1.PodRunning
	service := &corev1.Service{ObjectMeta: podOf("echo").ObjectMeta}
	for name, tc := range map[string]struct {
		before, after client.Object
		wakes         bool
	}{
		"nothing changed":   {podOf("echo"), newer, false},
		"it runs":           {podOf("echo"), runs, true},
		"it was made again": {podOf("echo"), again, true},
		"another server's":  {podOf("echo"), podOf("other"), true},
		"another object":    {service, service, true},
	} {
		if got := podMoved.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.wakes {
			t.Errorf("%s: it wakes somebody: %t", name, got)
		}
	}
}

// What Events say of a pod wakes its server, whose pod may not change any more.
func TestAComplaintWakesItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &complaints.Store{}
		for _, kind := range kinds.All() {
			r, q := &Reconciler{kind: kind, reader: snapshot.NewReader(kind, nil, nil)}, newQueue()
			defer q.ShutDown()
			if err := r.listen(t.Context(), q); err != nil {
				t.Fatal(err) // without any store
			}
			r.reader.Complaints = said
			if err := r.listen(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			pod := podOf(kind.Key("echo"))
			pod.Name, pod.Status.Phase, pod.Status.Reason = workload.ProxyName(kind.Key("echo"))+"-66d7f9c8b9-abcde",
				corev1.PodFailed, "Evicted"
			said.OfPods().OnAdd(pod, false)
			if got := passes(q, 0); !slices.Equal(got, []string{"ns/echo"}) {
				t.Errorf("what is said of a pod of %s wakes %v", kind.Object.Kind, got)
			}
		}
	})
}
