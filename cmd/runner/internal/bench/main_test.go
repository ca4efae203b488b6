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
	p := plan{rounds: 2, turn: 100 * time.Millisecond, connections: 2, streams: 20, kinds: kinds}
	contenders, err := run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(kinds, contenders)
	if len(rows) != 18 {
		t.Errorf("got %+v", rows)
	}
	for _, r := range rows {
		if r.CallsPerSecond <= 0 || r.P50 <= 0 || r.P99 < r.P50 || r.ToBare <= 0 || r.Name == bareName && r.ToBare != 1 {
			t.Errorf("got %+v", r)
		}
	}
	if text := result(p, "v1", contenders).text(); !strings.Contains(text, "v1") || !strings.Contains(text, "bare|") {
		t.Errorf("got %s", text)
	}
}

func TestGoalsAreToldOfOurs(t *testing.T) {
	for want, r := range map[string]row{
		"": {Name: "direct", ToBare: 9},
		"1.25 times its calls, at least 1.3: missed":        {Name: bareName, Kind: asJSON, Calls: 1.25},
		"alone serves 3.5 times its calls, at least 3: met": {Name: "mcp-proxy", Kind: asStdio, Calls: 2, Bridge: 3.5},
		"ours serves 2.9 times its calls, at least 3: missed": {
			Name: "ours, mcp-proxy", Kind: asStdio, Calls: 2.9,
			Bridge: 4,
		},
		"at most 1.10: missed":             {Name: ours, ToBare: 1.2},
		"at most 1.30: met":                {Name: "token", Kind: asJSON, ToBare: 9, ToOurs: 1.2},
		"1 calls failed, none may: missed": {Name: "and Cedar", Kind: asList, Failed: 1, ToOurs: 9},
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

func TestTheServerOfBridgesAnswers(t *testing.T) {
	var out strings.Builder
	if err := speak(strings.NewReader(hello+"\n"+ready+"\n"+legacyCall+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	const want = `{"id":0,"jsonrpc":"2.0","result":{"capabilities":{"tools":{}},"protocolVersion":"2025-11-25","serverInfo":{"name":"bench","version":"1"}}}` + "\n" +
		`{"id":1000000000,"jsonrpc":"2.0","result":{"content":[{"text":"hello","type":"text"}]}}` + "\n"
	if out.String() != want {
		t.Errorf("got %s", out.String())
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
	if _, err := session.Follow(dir, "bench-session", "1").
		Seal(session.Caller{}, session.Session{ID: "x", Issued: time.Now()}); err != nil {
		t.Error(err)
	}
}
