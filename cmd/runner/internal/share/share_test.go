package share

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestNoCallerTakesThePlacesOfOthers(t *testing.T) {
	p := New(4, Half(4))
	take := func(caller string, want error) func() {
		t.Helper()
		leave, err := p.Take(caller, 1)
		if !errors.Is(err, want) {
			t.Fatalf("%q gets %v, want %v", caller, err, want)
		}
		return leave
	}
	first := take("ann", nil)
	take("ann", nil)
	take("ann", ErrOwn)
	take("bob", nil)
	last := take("", nil)
	take("carol", ErrAll)
	first()
	first() // leaves no other's
	take("bob", nil)
	take("bob", ErrOwn)
	last()
	if len(p.of) != 2 {
		t.Errorf("%d callers are remembered", len(p.of))
	}
}

func TestWhoIsNotToldApartSharesAll(t *testing.T) {
	p := New(3, Half(3))
	for range 3 {
		if _, err := p.Take("", 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Take("", 1); !errors.Is(err, ErrAll) {
		t.Error(err)
	}
}

func TestOneWaitsForAPlace(t *testing.T) {
	p := New(2, Half(2))
	leave, err := p.Wait(t.Context(), "ann", 1)
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.Wait(ended, "ann", 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := p.Wait(t.Context(), "bob", 1); err != nil {
		t.Error("bob waits for ann:", err)
	}
	got := make(chan error)
	go func() { _, err := p.Wait(t.Context(), "ann", 1); got <- err }()
	leave()
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the place that was left is not given")
	}
}
