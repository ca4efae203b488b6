package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func TestWithoutItsRunConfigItSaysWhyInOneLine(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", runconfig.FileName)
	run := sample(t)
	changed := run
	changed.Backend.Image = "other"
	for name, tc := range map[string]struct {
		args []string
		want string
		env  []string
	}{
		"other number": {
			[]string{"--config", file(t, run)},
			"the environment says workload generation 6",
			carrying("6", run.Workload.Hash),
		},
		"other hash":    {[]string{"--config", file(t, run)}, "with hash abc", carrying("7", "abc")},
		"other content": {[]string{"--config", file(t, changed)}, "the content has hash", carrying("7", run.Workload.Hash)},
		"no file": {
			[]string{"--config", missing},
			"reading the run config: open " + missing + ": no such file or directory", nil,
		},
		"no JSON": {[]string{"--config", text(t, "x")}, "invalid character 'x'", nil},
		"nothing in it": {
			[]string{"--config", text(t, `{"version":"v1"}`)},
			"server.namespace: missing; server.name: missing", nil,
		},
		"newer version": {
			[]string{"--config", text(t, `{"version":"v9"}`)},
			`version: is "v9", this runner reads "v1"`,
			nil,
		},
		"unknown flag": {[]string{"--no-such-flag"}, "flag provided but not defined: -no-such-flag", nil},
		"backend's path": {
			[]string{"--config", file(t, sample(t)), "--backend", "http://x/mcp"},
			"write http and a host",
			nil,
		},
		"backend's scheme": {
			[]string{"--config", file(t, sample(t)), "--backend", "https://x"},
			"write http and a host", nil,
		},
	} {
		if _, err := read(tc.args, environment(tc.env), io.Discard); err == nil || !strings.Contains(err.Error(), tc.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: it says %v, want one line with %q", name, err, tc.want)
		}
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	command := exec.Command(path, "--config", missing)
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != misconfigured {
		t.Errorf("it ended with %v, want exit code %d", err, misconfigured)
	}
	want := "freehold-runner: reading the run config: open " + missing + ": no such file or directory\n"
	if stderr.String() != want || stdout.Len() > 0 {
		t.Errorf("it said %q and %q, want %q", &stderr, &stdout, want)
	}
}

// environment is os.LookupEnv of these entries alone.
func environment(entries []string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		for _, entry := range entries {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

func TestItListensWhereTheRunConfigSays(t *testing.T) {
	s, err := read([]string{"--config", file(t, sample(t))}, os.LookupEnv, io.Discard)
	if err != nil || s.calls != ":8000" || s.probes != ":9440" {
		t.Errorf("got addresses %s and %s: %v", s.calls, s.probes, err)
	}
}

// notApplying is the line that says why a runner only serves.
const notApplying = "not applying"

func TestWithoutAMarkItOnlyServes(t *testing.T) {
	const generation, hash = runconfig.EnvGeneration + "=", runconfig.EnvHash + "="
	run := sample(t)
	for name, tc := range map[string]struct {
		env []string
		why string
	}{
		"absent":      {nil, runconfig.EnvGeneration + " is not set"},
		"hash absent": {[]string{generation + "7"}, runconfig.EnvHash + " is not set"},
		"empty":       {[]string{generation, hash + run.Workload.Hash}, "not a number of 1 or more"},
		"hash empty":  {[]string{generation + "7", hash}, "hash: empty"},
		"negative":    {[]string{generation + "-7", hash + run.Workload.Hash}, "not a number of 1 or more"},
		"zero":        {[]string{generation + "0", hash + run.Workload.Hash}, "not a number of 1 or more"},
	} {
		if _, err := mark(environment(tc.env)); err == nil || !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%s: %v, want %s", name, err, tc.why)
		}
	}
	p := start(t, run, answering(t, "hello"), generation+"7x", hash+run.Workload.Hash)
	p.await("it is ready", func() bool { return p.get("/readyz") == http.StatusOK })
	if status, body := p.call(); status != http.StatusOK || body != "hello" {
		t.Errorf("a call got %d %q", status, body)
	}
	p.await("it says why", func() bool { return strings.Contains(p.said(), notApplying) })
	var whys []string
	for line := range strings.Lines(p.said()) {
		var entry struct{ Msg, Error string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("it logged %q: %v", line, err)
		}
		if entry.Msg == notApplying {
			whys = append(whys, entry.Error)
		}
	}
	if len(whys) != 1 || !strings.Contains(whys[0], "not a number of 1 or more") {
		t.Errorf("it said why it does not apply: %q, want one line", whys)
	}
}

func TestItServesWithoutAnAPIServer(t *testing.T) {
	run := sample(t)
	p := start(t, run, answering(t, "hello"), runconfig.EnvGeneration+"=7", runconfig.EnvHash+"="+run.Workload.Hash)
	p.await("it is ready", func() bool { return p.get("/readyz") == http.StatusOK })
	if status, body := p.call(); status != http.StatusOK || body != "hello" {
		t.Errorf("a call got %d %q", status, body)
	}
	if strings.Contains(p.said(), notApplying) {
		t.Errorf("it gave up on the API server:\n%s", p.said())
	}
}

func TestItCountsForPrometheus(t *testing.T) {
	p := start(t, sample(t), answering(t, "hello"))
	p.await("it is ready", func() bool { return p.get("/readyz") == http.StatusOK })
	p.call()
	for _, want := range []string{
		"freehold_proxy_requests_total{code=\"200\",method=\"POST\"} ",
		"freehold_proxy_backend_reachable 1\n", "process_resident_memory_bytes ",
	} {
		p.await("it tells of "+want, func() bool {
			response, err := http.Get("http://" + p.probes + "/metrics")
			if err != nil {
				return false
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			return err == nil && strings.Contains(string(body), "\n"+want)
		})
	}
}

func TestItIsNotReadyBeforeABackendHasAnswered(t *testing.T) {
	p := start(t, sample(t), "http://"+address(t))
	if status, body := p.call(); status != http.StatusServiceUnavailable || !strings.Contains(body, "BackendStarting: ") {
		t.Errorf("a call got %d %q", status, body)
	}
	if got := p.get("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz is %d", got)
	}
}

func TestSIGTERMDrains(t *testing.T) {
	arrived := make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asksWhoIsThere(w, r) {
			return
		}
		close(arrived)
		time.Sleep(500 * time.Millisecond)
		_, _ = io.WriteString(w, "late")
	}))
	t.Cleanup(backend.Close)
	p := start(t, sample(t), backend.URL)
	p.await("it is ready", func() bool { return p.get("/readyz") == http.StatusOK })
	answered := make(chan string, 1)
	go func() {
		_, body := p.call()
		answered <- body
	}()
	<-arrived
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.await("it is not ready", func() bool { return p.get("/readyz") == http.StatusServiceUnavailable })
	if got := p.get("/livez"); got != http.StatusOK {
		t.Errorf("/livez is %d while it drains", got)
	}
	if got := <-answered; got != "late" {
		t.Errorf("the call got %q", got)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.command.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v:\n%s", err, p.said())
		}
	case <-time.After(time.Minute):
		t.Error("it did not end with its last call")
	}
}
