package controllers

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newQueue is a queue that hands out by namespace in turns: a namespace whose
// servers wake all the time delays its own, and others by one pass at most.
// controller-runtime's own queue, which this takes the place of, orders by
// priority and age, and knows no namespaces.
func newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	fair := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: &turns{waiting: map[string][]reconcile.Request{}}})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Name: name, Queue: fair,
		}),
	})
}

// turns keeps what waits by namespace, first in, first out. The queue around it
// locks, and keeps out what waits already.
type turns struct {
	waiting map[string][]reconcile.Request
	// order are the namespaces of waiting, the next one first.
	order []string
	count int
}

// Touch changes nothing: what is added again keeps its place.
func (q *turns) Touch(reconcile.Request) {}

// Push adds to the end of a namespace.
func (q *turns) Push(r reconcile.Request) {
	if len(q.waiting[r.Namespace]) == 0 {
		q.order = append(q.order, r.Namespace)
	}
	q.waiting[r.Namespace] = append(q.waiting[r.Namespace], r)
	q.count++
}

// Len counts all that wait.
func (q *turns) Len() int { return q.count }

// Pop takes the first of the next namespace, which is then the last.
func (q *turns) Pop() reconcile.Request {
	namespace := q.order[0]
	q.order = q.order[1:]
	first, rest := q.waiting[namespace][0], q.waiting[namespace][1:]
	q.count--
	if len(rest) == 0 {
		delete(q.waiting, namespace)
		return first
	}
	q.waiting[namespace] = rest
	q.order = append(q.order, namespace)
	return first
}
