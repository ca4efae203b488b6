package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		fmt.Fprintln(os.Stderr, play(role, os.Args[1:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestItMeasures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	p := plan{rounds: 2, turn: 100 * time.Millisecond, connections: 2, streams: 20}
	if err := measure(t.Context(), p, file, "v1"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Contenders) != 3 || r.Machine.Version != "v1" || r.Machine.Cores == 0 {
		t.Fatalf("got %+v", r)
	}
	for _, c := range r.Contenders {
		for _, one := range c.Calls {
			if one.CallsPerSecond <= 0 || one.P50Micros <= 0 || one.P99Micros < one.P50Micros || one.P50ToBare <= 0 {
				t.Errorf("%s: %+v", c.Name, one)
			}
			// The bare one allocates a copy buffer for each call, which is known.
			if bare := c.Name == "bare"; bare && one.Bytes < 32<<10 || c.Name == "ours" && (one.Bytes < 1000 || one.Bytes > goalBytes) {
				t.Errorf("%s: %d bytes a call", c.Name, one.Bytes)
			}
		}
		if c.Name == "ours" && (c.BytesPerStream < 1000 || c.BytesPerStream > 500_000) {
			t.Errorf("%s: %.0f bytes a stream", c.Name, c.BytesPerStream)
		}
	}
	if goals := r.goals(); strings.Count(goals, "goal ours") != 6 || !strings.Contains(goals, "met") {
		t.Errorf("got goals %s", goals)
	}
}

func TestACallThatFailsEndsTheMeasurement(t *testing.T) {
	backend, err := start(t.Context(), "backend")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := start(t.Context(), "ours", backend.calls)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.stop()
	backend.stop()
	if _, err := takeTurn(ours.calls, asJSON, 1, time.Second); err == nil || !strings.Contains(err.Error(), "503") {
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
