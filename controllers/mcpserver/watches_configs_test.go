package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// followers is a cache of servers that refer to one MCPOIDCConfig; lists counts how often they are listed.
type followers struct {
	client.Reader
	config  v1alpha1.MCPOIDCConfig
	servers []v1alpha1.MCPServer
	lists   atomic.Int32
}

func (f *followers) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*v1alpha1.MCPOIDCConfig) = f.config
	return nil
}

func (f *followers) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if all, ok := into.(*v1alpha1.MCPServerList); ok {
		f.lists.Add(1)
		all.Items = f.servers
	}
	return nil
}

// follow is a world of n servers that serve with what the configuration said before.
func follow(n int) *followers {
	f := &followers{}
	f.config.Namespace, f.config.Name = "ns", "company"
	f.config.Spec.OIDC = &v1alpha1.OIDCIssuer{Issuer: "https://login.example.com"}
	for i := range n {
		server := up().server
		server.Name = fmt.Sprintf("s%03d", i)
		server.Spec.OIDCConfigRef = &v1alpha1.OIDCConfigReference{LocalReference: v1alpha1.LocalReference{Name: "company"}}
		server.Status.ServedGeneration = current.Generation
		server.Status.Workload.Configs = []v1alpha1.WorkloadConfig{named("MCPOIDCConfig", "company", "before")}
		f.servers = append(f.servers, *server)
	}
	return f
}

// take has the i-th server go on to what the configuration says.
func (f *followers) take(i int) event.UpdateEvent {
	before := f.servers[i].DeepCopy()
	f.servers[i].Status.Workload.Configs[0].Hash = registry.Read(&f.config)[0].Verdict.Hash
	return event.UpdateEvent{ObjectOld: before, ObjectNew: f.servers[i].DeepCopy()}
}

// However many servers move, who is next is looked up once in a while, and not in the
// watch: an event of one server costs the others' events nothing.
func TestManyMovesAreOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(500)
		r := &Reconciler{kind: kinds.All()[0], reader: snapshot.NewReader(kinds.All()[0], f, f)}
		r.reader.Percent = 50
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		w := r.waves()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		if err := w.Start(ctx, q); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			w.handler().Update(ctx, f.take(i), q)
		}
		if f.lists.Load() != 0 || q.Len() != 0 {
			t.Errorf("in the watch all were listed %d times, and %d woken", f.lists.Load(), q.Len())
		}
		time.Sleep(gathering)
		synctest.Wait()
		if f.lists.Load() != 1 {
			t.Errorf("200 moves took %d lists of all, want 1", f.lists.Load())
		}
		var woken []string
		for q.Len() > 0 {
			next, _ := q.Get()
			q.Done(next)
			woken = append(woken, next.Name)
		}
		if len(woken) != 250 || woken[0] != "s200" || !slices.IsSorted(woken) {
			t.Errorf("it wakes %v, want half of all from s200 on, whose turn it is after those that have it", woken)
		}
		w.handler().Update(ctx, event.UpdateEvent{ObjectOld: &f.servers[0], ObjectNew: &f.servers[0]}, q)
		time.Sleep(time.Second)
		synctest.Wait()
		if f.lists.Load() != 1 || q.Len() != 0 {
			t.Errorf("a change that is no move takes %d lists, and wakes %d", f.lists.Load()-1, q.Len())
		}
		w.handler().Delete(ctx, event.DeleteEvent{Object: &f.servers[0]}, q)
		time.Sleep(gathering)
		synctest.Wait()
		if f.lists.Load() != 2 {
			t.Errorf("one that goes takes %d lists, want 1", f.lists.Load()-1)
		}
	})
}

// A rollout is many events of children, and few passes: those that come together wake one. A pod of which nothing is
// kept that is new wakes none.
func TestEventsOfChildrenThatComeTogetherAreOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reconciler{kind: kinds.Servers()}
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		child := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", Labels: map[string]string{workload.LabelServer: "echo"},
		}}
		wakes := r.children()
		wakes.Create(t.Context(), event.CreateEvent{Object: child, IsInInitialList: true}, q)
		if q.Len() != 1 {
			t.Errorf("at the start it waits: %d passes", q.Len())
		}
		next, _ := q.Get()
		q.Done(next)
		for range 20 {
			wakes.Create(t.Context(), event.CreateEvent{Object: child}, q)
			wakes.Update(t.Context(), event.UpdateEvent{ObjectOld: child, ObjectNew: child}, q)
			wakes.Delete(t.Context(), event.DeleteEvent{Object: child}, q)
		}
		if synctest.Wait(); q.Len() != 0 {
			t.Errorf("it does not wait for others: %d passes", q.Len())
		}
		time.Sleep(gathering)
		if synctest.Wait(); q.Len() != 1 {
			t.Errorf("60 events wake %d passes, want 1", q.Len())
		}
		newer := child.DeepCopy()
		newer.ResourceVersion = "2"
		if podMoved.Update(event.UpdateEvent{ObjectOld: child, ObjectNew: newer}) {
			t.Error("a pod of which nothing changed wakes")
		}
		newer.Status.Phase = corev1.PodRunning
		if !podMoved.Update(event.UpdateEvent{ObjectOld: child, ObjectNew: newer}) {
			t.Error("a pod that has moved wakes nobody")
		}
		service := &corev1.Service{ObjectMeta: child.ObjectMeta}
		if !podMoved.Update(event.UpdateEvent{ObjectOld: service, ObjectNew: service}) {
			t.Error("another object that was written wakes nobody")
		}
	})
}
