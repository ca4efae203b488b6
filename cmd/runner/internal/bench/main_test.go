package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		fmt.Fprintln(os.Stderr, play(role, os.Args[1:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestItMeasures(t *testing.T) {
	p := plan{rounds: 2, turn: 100 * time.Millisecond, connections: 2, streams: 20}
	contenders, err := run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(contenders)
	if len(rows) != 6 {
		t.Errorf("got %+v", rows)
	}
	for _, r := range rows {
		if r.callsPerSecond <= 0 || r.p50 <= 0 || r.p99 < r.p50 || r.toBare <= 0 || r.name == "bare" && r.toBare != 1 {
			t.Errorf("got %+v", r)
		}
	}
	if text := report(p, "v1", contenders); !strings.Contains(text, "v1") || !strings.Contains(text, "bare|") {
		t.Errorf("got %s", text)
	}
}

func TestGoalsAreToldOfOurs(t *testing.T) {
	for want, r := range map[string]row{
		"":                                 {name: "bare", toBare: 9},
		"at most 1.15: missed":             {name: "ours", toBare: 1.2},
		"at most 1.30: met":                {name: "token", kind: asJSON, toBare: 9, toOurs: 1.2},
		"1 calls failed, none may: missed": {name: "and Cedar", kind: asList, failed: 1, toOurs: 9},
	} {
		if got := r.goals(); !strings.Contains(got, want) || (want == "") != (got == "") || strings.Count(got, "missed") > 1 {
			t.Errorf("%+v: %s, want %s", r, got, want)
		}
	}
}

func TestACallThatFailsEndsTheMeasurement(t *testing.T) {
	backend, err := start(t.Context(), "backend")
	if err != nil {
		t.Fatal(err)
	}
	bare, err := start(t.Context(), "bare", backend.calls)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.stop()
	backend.stop()
	if _, err := bare.takeTurn(asJSON, 1, time.Second); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("got %v", err)
	}
}

func TestMedianOfRounds(t *testing.T) {
	for want, values := range map[float64][]float64{2: {9, 2, 1}, 2.5: {3, 9, 2, 1}, 7: {7}} {
		if got := median(len(values), func(i int) float64 { return values[i] }); got != want {
			t.Errorf("%v: got %v", values, got)
		}
	}
}

// nginx is measured with its workers, and leaves none behind.
func TestNginxEndsWithItsWorkers(t *testing.T) {
	binary, err := exec.LookPath(cmp.Or(os.Getenv("NGINX"), "nginx"))
	if err != nil {
		t.Skip("nginx is not installed")
	}
	backend, err := start(t.Context(), "backend")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.stop()
	p, err := startNginx(t.Context(), binary, t.TempDir(), backend.calls)
	if err != nil {
		t.Fatal(err)
	}
	c := &contender{name: "nginx", process: p}
	if _, err := c.takeTurn(asEvent, 1, 100*time.Millisecond); err != nil {
		t.Error(err)
	}
	pids := c.pids()
	if len(pids) < 2 {
		t.Errorf("it has the processes %v", pids)
	}
	p.stop()
	for _, pid := range pids {
		if _, err := worked(pid); err == nil {
			t.Errorf("process %s is left of %v", pid, pids)
		}
	}
}

// A session begins only with a key that the runner takes.
func TestTheRunnerTakesTheKeyOfSessions(t *testing.T) {
	dir, err := sessionKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Follow(dir, "bench-session", "1").Seal(session.Caller{}, session.Session{ID: "x", Issued: time.Now()}); err != nil {
		t.Error(err)
	}
}
