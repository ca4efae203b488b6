package controllers

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newQueue is a queue for so many workers that is fair to namespaces: the next pass is
// that of the namespace with the fewest under way, and no namespace has all workers. So
// one whose servers wake all the time delays its own, and of others a change finds a
// worker that is free. controller-runtime's own queue, which this takes the place of,
// orders by priority and age, and knows neither namespaces nor what is under way.
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

// mostOf is how many of so many workers one namespace may have: all but a quarter, and
// one at least. Each pass that is under way slows the others down, so what is kept free
// is also what the API server answers sooner.
func maxPerNamespace(workers int) int { return max(1, workers-max(1, workers/4)) }

// fair tells the order when a pass has ended. The worker whose pass it was asks for the
// next one then, so nobody else has to be woken.
type notifyingQueue struct {
	workqueue.TypedInterface[reconcile.Request]
	queue *fairQueue
}

// Done ends a pass.
func (f notifyingQueue) Done(r reconcile.Request) {
	f.queue.ended(r)
	f.TypedInterface.Done(r)
}

// turns keeps what waits by namespace, first in, first out. The queue around it keeps
// out what waits already.
type fairQueue struct {
	// most is how many passes of one namespace are under way at once.
	maxPerNamespace int

	mu         sync.Mutex
	namespaces map[string]*lane
	// order are the namespaces of which any waits, the next one first among equals.
	order []string
}

// lane is a namespace: what waits of it, and how many of its passes are under way.
type lane struct {
	waiting  []reconcile.Request
	underway int
}

// Touch changes nothing: what is added again keeps its place.
func (q *fairQueue) Touch(reconcile.Request) {}

// Push adds to the end of a namespace.
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

// Pop takes the first of the namespace with the fewest passes under way, which is then
// the last among equals. It is called only where Len is not 0.
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

// ended says that a pass is no longer under way.
func (q *fairQueue) ended(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.namespaces[r.Namespace]
	if l.underway--; l.underway == 0 && len(l.waiting) == 0 {
		delete(q.namespaces, r.Namespace)
	}
}
