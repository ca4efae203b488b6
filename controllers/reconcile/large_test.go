package reconcile

import (
	"container/heap"
	"fmt"
	"testing"
	"time"
)

// A namespace of many large objects does not keep another one from its turn, nor does one that has left the line.
func TestNamespacesTakeTurnsAtLargeObjects(t *testing.T) {
	var large LargeQueue
	now := time.Unix(1000, 0)
	take := func(namespace string, want bool) {
		t.Helper()
		if got := large.Take(namespace, namespace, now) == 0; got != want {
			t.Errorf("%s takes its turn: %t, want %t", namespace, got, want)
		}
	}
	take("many", true)
	take("many", false)
	take("one", false)
	large.Leave()
	take("many", false)
	take("one", true)
	take("one", false)
	large.Leave()
	take("many", true)
	large.Leave()
	take("many", false)
	now = now.Add(largeRetry + largeStagger + largeGone + time.Millisecond)
	take("many", true)
}

// Those of one namespace come back one after another, and no later than others wait for.
func TestWhoAskedInVainComesBackInTurn(t *testing.T) {
	var large LargeQueue
	now := time.Unix(1000, 0)
	large.Take("many", "first", now)
	var last time.Duration
	for i := range 500 {
		wait := large.Take("many", fmt.Sprint(i), now)
		if want := min(largeRetry+time.Duration(i)*largeStagger, largeRetryMax); wait != want {
			t.Fatalf("the %d. comes back after %s, want %s", i, wait, want)
		}
		last = wait
	}
	if last != largeRetryMax {
		t.Errorf("the last one comes back after %s", last)
	}
}

// A pass takes one turn, and gives it back once.
func TestAPassHoldsOneTurn(t *testing.T) {
	var large LargeQueue
	now := time.Unix(1000, 0)
	first, second := large.Of("a", "x"), large.Of("b", "y")
	once, again := first.Take(now), first.Take(now)
	if once != 0 || again != 0 || second.Take(now) == 0 {
		t.Error("a turn is not one pass's")
	}
	second.Leave()
	if large.Take("c", "z", now) == 0 {
		t.Error("who had no turn gave it back")
	}
	first.Leave()
	if second.Take(now) != 0 {
		t.Error("the turn is not given back")
	}
}

// worker is an object of which passes are made in a simulated time.
type worker struct {
	namespace, name string
	// passes are left, of which each takes as long; endless is woken by another event whenever one has ended.
	passes  int
	takes   time.Duration
	endless bool
	at      time.Time
	done    time.Duration
	holds   bool
}

type agenda []*worker

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(w any)        { *a = append(*a, w.(*worker)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// run lets workers take turns until those that end have ended, or for as long as most says.
func (a *agenda) run(most time.Duration) {
	var large LargeQueue
	start := time.Unix(1000, 0)
	ends := 0
	for _, w := range *a {
		w.at = start
		if !w.endless {
			ends++
		}
	}
	heap.Init(a)
	for ends > 0 && (*a)[0].at.Sub(start) < most {
		w := (*a)[0]
		now := w.at
		switch {
		case w.holds:
			large.Leave()
			w.holds = false
			if w.passes--; w.passes == 0 && !w.endless {
				w.done = now.Sub(start)
				ends--
				heap.Pop(a)
				continue
			}
			w.at = now.Add(time.Microsecond) // what it wrote wakes it
		default:
			wait := large.Take(w.namespace, w.name, now)
			if w.holds = wait == 0; w.holds {
				wait = w.takes
			}
			w.at = now.Add(wait)
		}
		heap.Fix(a, 0)
	}
}

// Whatever wakes some large objects all the time, each of the others has its passes, and no
// later than the work before it and the steps of its waits ask for.
func TestEachLargeObjectConverges(t *testing.T) {
	for name, tc := range map[string]struct {
		namespaces, objects, endless int
		takes, most                  time.Duration
	}{
		"a few that take seconds":          {1, 8, 0, 3 * time.Second, 8 * 5 * 3100 * time.Millisecond},
		"many that take little":            {1, 200, 0, 20 * time.Millisecond, 200 * 5 * 120 * time.Millisecond},
		"beside one that never rests":      {1, 4, 1, 3 * time.Second, 5 * 5 * 3100 * time.Millisecond},
		"beside some that never rest":      {1, 4, 3, time.Second, 7 * 5 * 1100 * time.Millisecond},
		"of namespaces that never rest":    {5, 4, 2, time.Second, 5 * 6 * 5 * 1300 * time.Millisecond},
		"of many namespaces with one each": {40, 1, 0, 100 * time.Millisecond, 40 * 5 * 300 * time.Millisecond},
	} {
		var all agenda
		for n := range tc.namespaces {
			for i := range tc.objects + tc.endless {
				all = append(all, &worker{
					namespace: fmt.Sprint(n), name: fmt.Sprint(i), passes: 5, takes: tc.takes,
					endless: i < tc.endless,
				})
			}
		}
		workers := append(agenda{}, all...)
		all.run(tc.most)
		for _, w := range workers {
			if !w.endless && w.done == 0 {
				t.Errorf("%s: %s of namespace %s has %d passes left after %s", name, w.name, w.namespace, w.passes, tc.most)
			}
		}
	}
}
