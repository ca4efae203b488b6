package controllers

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// of is a request for an object whose name begins with its namespace.
func of(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: name[:1], Name: name}}
}

// queueOf is a queue for so many workers, as the controllers have it.
func queueOf(t *testing.T, workers int) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	options := Options{Concurrency: workers}.controller()
	q := options.NewQueue("", options.RateLimiter)
	t.Cleanup(q.ShutDown)
	return q
}

// One namespace's servers wait for each other, and not others for them.
func TestNamespacesTakeTurns(t *testing.T) {
	q := queueOf(t, 2)
	add := func(names ...string) {
		for _, name := range names {
			q.Add(of(name))
		}
	}
	var got []string
	take := func(n int) {
		for range n {
			r, _ := q.Get()
			q.Done(r)
			got = append(got, r.Name)
		}
	}
	add("a1", "a2", "a3", "a1", "a4")
	take(1)
	add("b1", "a1", "c1", "b2", "a5")
	take(8)
	if want := []string{"a1", "a2", "b1", "c1", "a3", "b2", "a4", "a1", "a5"}; !slices.Equal(got, want) {
		t.Errorf("they came as %v, want %v", got, want)
	}
	add("a1", "b1")
	if take(2); q.Len() != 0 || got[len(got)-1] != "b1" {
		t.Errorf("after it was empty they came as %v, and %d are left", got[len(got)-2:], q.Len())
	}
}

// Whatever one namespace asks for, a change of another finds a worker that is free: no pass ends, or begins, before it.
func TestNoNamespaceHasAllWorkers(t *testing.T) {
	for _, workers := range []int{2, 3, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			q := queueOf(t, workers)
			under := work(t, q, workers)
			for i := range 800 {
				q.Add(of("a" + strconv.Itoa(i)))
			}
			synctest.Wait()
			if busy, want := len(*under), workers-max(1, workers/4); busy != want {
				t.Errorf("of %d workers one namespace has %d, want %d", workers, busy, want)
			}
			q.Add(of("b1"))
			synctest.Wait()
			if !slices.Contains(names(*under), "b1") {
				t.Errorf("of %d workers none takes another namespace's: %v are under way", workers, names(*under))
			}
		})
	}
}

// Where several namespaces have all workers, the first pass that ends gives way to one that
// has none; and all passes are made, each once.
func TestTheNextPassIsOfWhoHasTheFewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queueOf(t, 4)
		under := work(t, q, 4)
		for i := range 10 {
			q.Add(of("a" + strconv.Itoa(i)))
			q.Add(of("b" + strconv.Itoa(i)))
		}
		synctest.Wait()
		q.Add(of("c1"))
		q.Add(of("a0")) // is under way: comes again
		begun := names(*under)
		for len(*under) > 0 {
			first := (*under)[0]
			*under = (*under)[1:]
			close(first.end)
			synctest.Wait()
			begun = append(begun, names((*under)[min(3, len(*under)):])...)
		}
		if i := slices.Index(begun, "c1"); i != 4 {
			t.Errorf("its pass is number %d of %v, want the first after the 4 that were under way", i, begun)
		}
		slices.Sort(begun)
		if len(begun) != 22 || len(slices.Compact(begun)) != 21 {
			t.Errorf("%d passes began: %v", len(begun), begun)
		}
	})
}

// pass is one that is under way until end is closed.
type pass struct {
	name string
	end  chan struct{}
}

func names(all []pass) []string {
	var found []string
	for _, p := range all {
		found = append(found, p.name)
	}
	return found
}

// work has so many workers take passes, and returns those under way, which may be read after synctest.Wait.
func work(t *testing.T, q workqueue.TypedRateLimitingInterface[reconcile.Request], workers int) *[]pass {
	under, mu, all := &[]pass{}, sync.Mutex{}, make(chan struct{})
	t.Cleanup(func() { close(all) })
	for range workers {
		go func() {
			for {
				r, shutdown := q.Get()
				if shutdown {
					return
				}
				p := pass{r.Name, make(chan struct{})}
				mu.Lock()
				*under = append(*under, p)
				mu.Unlock()
				select {
				case <-p.end:
				case <-all:
				}
				q.Done(r)
			}
		}()
	}
	return under
}
