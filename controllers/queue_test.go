package controllers

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// One namespace's servers wait for each other, and not others for them.
func TestNamespacesTakeTurns(t *testing.T) {
	q := newQueue("", Options{}.controller().RateLimiter)
	defer q.ShutDown()
	add := func(names ...string) {
		for _, name := range names {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: name[:1], Name: name}})
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
	take(q.Len())
	if want := []string{"a1", "a2", "b1", "c1", "a3", "b2", "a4", "a1", "a5"}; !slices.Equal(got, want) {
		t.Errorf("they came as %v, want %v", got, want)
	}
	add("a1", "b1")
	if take(2); q.Len() != 0 || got[len(got)-1] != "b1" {
		t.Errorf("after it was empty they came as %v, and %d are left", got[len(got)-2:], q.Len())
	}
}
