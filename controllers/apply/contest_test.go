package apply

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
)

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func contestOf(name string) (memoryKey, Contest) {
	key := types.NamespacedName{Namespace: "ns", Name: name}
	return memoryKey{key: key}, Contest{Object: contract.Service, Key: key, Fields: []string{".spec.type"}, By: []string{"kubectl"}}
}

// Somebody who writes every five seconds costs a write a minute, once the first
// ones have not helped.
func TestAFightCostsAWriteAMinute(t *testing.T) {
	a := New(nil, nil, nil, ownership.Contract{})
	now := noon
	a.Now = func() time.Time { return now }
	k, found := contestOf("echo-proxy")
	all := func(Contest) bool { return true }
	writes := 0
	for ; now.Before(noon.Add(10 * time.Minute)); now = now.Add(5 * time.Second) {
		known, wait := a.contests.lost(k, found, now)
		if !known.Since.Equal(noon) {
			t.Fatalf("at %s it began at %s", now, known.Since)
		}
		if going, ends := a.Contests("ns", all); writes > 1 && (len(going) != 1 || ends <= 0 || ends > 2*time.Minute) {
			t.Fatalf("at %s, after %d writes, there are %v for %s", now, writes, going, ends)
		} else if writes <= 1 && len(going) != 0 {
			t.Fatalf("what was taken once is called a fight: %v", going)
		}
		if wait == 0 {
			a.contests.tookBack(k, now)
			writes++
		} else if wait > takeBackEvery {
			t.Fatalf("it waits %s", wait)
		}
	}
	if want := takeBacks + 9; writes != want {
		t.Errorf("%d writes in ten minutes, want %d", writes, want)
	}
	// A write that failed has cost nothing, another object is not concerned, and
	// another namespace sees nothing of it.
	other, foundThere := contestOf("other-proxy")
	for range 2 * takeBacks {
		if _, wait := a.contests.lost(other, foundThere, now); wait != 0 {
			t.Fatalf("an object that was never taken back waits %s", wait)
		}
	}
	if going, _ := a.Contests("elsewhere", all); going != nil {
		t.Errorf("seen from elsewhere: %v", going)
	}
	now = now.Add(2 * takeBackEvery)
	if going, ends := a.Contests("ns", all); going != nil || ends != 0 {
		t.Errorf("after two minutes of peace there are still %v for %s", going, ends)
	}
	now = now.Add(takeBackEvery)
	if known, wait := a.contests.lost(k, found, now); wait != 0 || !known.Since.Equal(now) {
		t.Errorf("after peace a contest began at %s and waits %s", known.Since, wait)
	}
}

func TestAContestIsToldInOneSentence(t *testing.T) {
	_, c := contestOf("echo-proxy")
	c.Since = noon
	if got, want := c.String(), "Service echo-proxy: .spec.type, by kubectl, since 2026-05-06T12:00:00Z"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	c.Fields, c.By = []string{".a", ".b", ".c", ".d", ".e"}, nil
	if got, want := c.String(), "Service echo-proxy: .a, .b, .c and 2 more, by somebody who removes them, since "; !strings.HasPrefix(got, want) {
		t.Errorf("it says %q, want %q…", got, want)
	}
	text := (&Fought{Contest: c, Again: 59400 * time.Millisecond}).Error()
	if want := "next taken back in 59s: Service echo-proxy: .a"; !strings.Contains(text, want) {
		t.Errorf("the error %q does not say %q", text, want)
	}
}
