package mcpserver

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
)

// followers is a cache of servers that refer to one MCPOIDCConfig; lists counts how often they are listed.
type followers struct {
	client.Reader
	config  v1alpha1.MCPOIDCConfig
	servers []v1alpha1.MCPServer
	lists   atomic.Int32
	gone    atomic.Bool
}

func (f *followers) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if f.gone.Load() || key != client.ObjectKeyFromObject(&f.config) {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
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
		server.Namespace, server.Name = "ns", fmt.Sprintf("s%03d", i)
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
		if woken := passes(q, 0); len(woken) != 250 || woken[0] != "ns/s200" {
			t.Errorf("it wakes %v, want half of all from s200 on, whose turn it is after those that have it", woken)
		}
		left := f.servers[1].DeepCopy()
		left.Spec.OIDCConfigRef = nil
		for _, move := range []struct {
			what        string
			make        func()
			gone        bool
			looks, wake int
		}{
			{what: "a change that is no move", make: func() {
				w.handler().Update(ctx, event.UpdateEvent{ObjectOld: &f.servers[0], ObjectNew: &f.servers[0]}, q)
			}},
			{what: "one that goes", looks: 1, wake: 250, make: func() {
				w.handler().Delete(ctx, event.DeleteEvent{Object: &f.servers[0]}, q)
			}},
			{what: "one that refers to it no more", looks: 1, wake: 250, make: func() {
				w.handler().Update(ctx, event.UpdateEvent{ObjectOld: &f.servers[1], ObjectNew: left}, q)
			}},
			{what: "one whose configuration goes meanwhile", gone: true, make: func() {
				w.handler().Delete(ctx, event.DeleteEvent{Object: &f.servers[0]}, q)
			}},
			{what: "one without a configuration", gone: true, make: func() {
				w.handler().Update(ctx, f.take(300), q)
			}},
		} {
			before := f.lists.Load()
			move.make()
			f.gone.Store(move.gone)
			woken := passes(q, gathering)
			if looks := int(f.lists.Load() - before); looks != move.looks || len(woken) != move.wake {
				t.Errorf("%s takes %d lists, and wakes %d, want %d and %d", move.what, looks, len(woken), move.looks, move.wake)
			}
		}
	})
}
