package controllers

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newQueue returns a queue that is fair to namespaces: the next pass is that of the namespace with the fewest in
// progress, and no namespace has all workers. A namespace whose servers wake constantly delays only its own.
// controller-runtime's queue, which this replaces, orders by priority and age only.
func newQueue(
	workers int,
) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string,
		limiter workqueue.TypedRateLimiter[reconcile.Request],
	) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		t := &fairQueue{maxPerNamespace: maxPerNamespace(workers), namespaces: map[string]*lane{}}
		waiting := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: t})
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
				Name: name,
				DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
					Name: name, Queue: notifyingQueue{waiting, t},
				}),
			})
	}
}

// maxPerNamespace is how many of the workers one namespace may have: all but a quarter, at least one. Each pass in
// progress slows the others down, so a free worker also gets faster answers.
func maxPerNamespace(workers int) int { return max(1, workers-max(1, workers/4)) }

// notifyingQueue tells the fairQueue when a pass has ended. Its worker then asks for the next one, so nobody else has
// to be woken.
type notifyingQueue struct {
	workqueue.TypedInterface[reconcile.Request]
	queue *fairQueue
}

// Done ends a pass.
func (f notifyingQueue) Done(r reconcile.Request) {
	f.queue.ended(r)
	f.TypedInterface.Done(r)
}

// fairQueue keeps waiting requests by namespace, first in, first out. The queue around it removes duplicates.
type fairQueue struct {
	// maxPerNamespace is how many passes of one namespace run at once.
	maxPerNamespace int

	mu         sync.Mutex
	namespaces map[string]*lane
	// order are the namespaces with waiting requests, the next one first among equals.
	order []string
}

// lane has a namespace's waiting requests, and the number of its running passes.
type lane struct {
	waiting  []reconcile.Request
	underway int
}

// Touch changes nothing: a request that is added again keeps its place.
func (q *fairQueue) Touch(reconcile.Request) {}

// Push appends to the lane of its namespace.
func (q *fairQueue) Push(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.namespaces[r.Namespace]
	if l == nil {
		l = &lane{}
		q.namespaces[r.Namespace] = l
	}
	if len(l.waiting) == 0 {
		q.order = append(q.order, r.Namespace)
	}
	l.waiting = append(l.waiting, r)
}

// Len counts the passes that may begin.
func (q *fairQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	count := 0
	for _, namespace := range q.order {
		l := q.namespaces[namespace]
		count += max(0, min(len(l.waiting), q.maxPerNamespace-l.underway))
	}
	return count
}

// Pop takes the first request of the namespace with the fewest running passes, which then becomes the last among
// equals. It is called only if Len is not 0.
func (q *fairQueue) Pop() reconcile.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := 0
	for i := range q.order {
		if q.namespaces[q.order[i]].underway < q.namespaces[q.order[next]].underway {
			next = i
		}
	}
	namespace := q.order[next]
	q.order = append(q.order[:next], q.order[next+1:]...)
	l := q.namespaces[namespace]
	first := l.waiting[0]
	l.waiting, l.underway = l.waiting[1:], l.underway+1
	if len(l.waiting) > 0 {
		q.order = append(q.order, namespace)
	}
	return first
}

func (q *fairQueue) ended(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.namespaces[r.Namespace]
	if l.underway--; l.underway == 0 && len(l.waiting) == 0 {
		delete(q.namespaces, r.Namespace)
	}
}
