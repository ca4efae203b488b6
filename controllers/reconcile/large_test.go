package reconcile

import (
	"testing"
	"time"
)

// A namespace of many large objects does not keep another one from its turn, nor does
// one that has left the line.
func TestNamespacesTakeTurnsAtLargeObjects(t *testing.T) {
	var large Turn
	now := time.Unix(1000, 0)
	take := func(namespace string, want bool) {
		t.Helper()
		if got := large.Take(namespace, now) == 0; got != want {
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
	now = now.Add(turnRetry + turnGap + turnGone + time.Millisecond)
	take("many", true)
}

// Those of one namespace come back one after another, and no later than others wait for.
func TestWhoAskedInVainComesBackInTurn(t *testing.T) {
	var large Turn
	now := time.Unix(1000, 0)
	large.Take("many", now)
	var last time.Duration
	for i := range 500 {
		wait := large.Take("many", now)
		if want := min(turnRetry+time.Duration(i)*turnGap, turnMost); wait != want {
			t.Fatalf("the %d. comes back after %s, want %s", i, wait, want)
		}
		last = wait
	}
	if last != turnMost {
		t.Errorf("the last one comes back after %s", last)
	}
}

// A pass takes one turn, and gives it back once.
func TestAPassHoldsOneTurn(t *testing.T) {
	var large Turn
	now := time.Unix(1000, 0)
	first, second := large.Of("a"), large.Of("b")
	once, again := first.Take(now), first.Take(now)
	if once != 0 || again != 0 || second.Take(now) == 0 {
		t.Error("a turn is not one pass's")
	}
	second.Leave()
	if large.Take("c", now) == 0 {
		t.Error("who had no turn gave it back")
	}
	first.Leave()
	if second.Take(now) != 0 {
		t.Error("the turn is not given back")
	}
}
