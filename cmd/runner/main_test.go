package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func TestWithoutItsRunConfigItSaysWhyInOneLine(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
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
			"freehold-runner: reading the run config: open " + missing + ": no such file or directory\n", nil,
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
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			command := exec.Command(path, tc.args...)
			command.Env = append(os.Environ(), tc.env...)
			command.Stdout, command.Stderr = &stdout, &stderr
			err := command.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != misconfigured {
				t.Errorf("it ended with %v, want exit code %d", err, misconfigured)
			}
			said := stderr.String()
			if strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "freehold-runner: ") ||
				!strings.Contains(said, tc.want) || stdout.Len() > 0 {
				t.Errorf("it said %q and %q, want one line with %q", said, stdout.String(), tc.want)
			}
		})
	}
}

func TestItListensWhereTheRunConfigSays(t *testing.T) {
	s, err := read([]string{"--config", file(t, sample(t))}, os.LookupEnv, io.Discard)
	if err != nil || s.calls != ":8000" || s.probes != ":9440" {
		t.Errorf("got addresses %s and %s: %v", s.calls, s.probes, err)
	}
}

// notApplying is the line that says why a runner only serves.
const notApplying = "not applying, only serving"

func TestWithoutAMarkItOnlyServes(t *testing.T) {
	run := sample(t)
	backend := answering(t, "hello")
	generation, hash := runconfig.EnvGeneration+"=", runconfig.EnvHash+"="
	for name, tc := range map[string]struct {
		env []string
		why string
	}{
		"absent":      {nil, runconfig.EnvGeneration + " is not set"},
		"hash absent": {[]string{generation + "7"}, runconfig.EnvHash + " is not set"},
		"empty":       {[]string{generation, hash + run.Workload.Hash}, "not a number of 1 or more"},
		"hash empty":  {[]string{generation + "7", hash}, "hash: empty"},
		"unparsable":  {[]string{generation + "7x", hash + run.Workload.Hash}, "not a number of 1 or more"},
		"negative":    {[]string{generation + "-7", hash + run.Workload.Hash}, "not a number of 1 or more"},
		"zero":        {[]string{generation + "0", hash + run.Workload.Hash}, "not a number of 1 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, run, backend, tc.env...)
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
			if len(whys) != 1 || !strings.Contains(whys[0], tc.why) {
				t.Errorf("it said why it does not apply: %q, want one line with %q", whys, tc.why)
			}
		})
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

func TestItIsNotReadyWhereSomethingElseAnswers(t *testing.T) {
	backend := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(backend.Close)
	p := start(t, sample(t), backend.URL)
	for range 20 {
		if status, _ := p.call(); status != http.StatusNotFound {
			t.Fatalf("a call got %d", status)
		}
		if got := p.get("/readyz"); got != http.StatusServiceUnavailable {
			t.Fatalf("/readyz is %d", got)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if got := p.get("/livez"); got != http.StatusOK {
		t.Errorf("/livez is %d", got)
	}
}

func TestWhatIsNotEnforcedIsNotServed(t *testing.T) {
	backend := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the backend was reached") }))
	t.Cleanup(backend.Close)
	p := start(t, sample(t, func(r *runconfig.RunConfig) { r.NotEnforced = []string{"spec.oidcConfigRef"} }), backend.URL)
	if got := p.get("/readyz"); got != http.StatusOK {
		t.Errorf("/readyz is %d: callers would not reach the answer", got)
	}
	want :=
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32010,"message":"NotEnforced: spec.oidcConfigRef is set, and this version does not enforce it"}}` + "\n"
	if status, body := p.call(); status != http.StatusServiceUnavailable || body != want {
		t.Errorf("a call got %d %q", status, body)
	}
}

func TestPoliciesDecide(t *testing.T) {
	var reached atomic.Int32
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"id":7`)) {
			reached.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"add"},{"name":"drop"}]}}`)
	}))
	t.Cleanup(backend.Close)
	p := start(t, sample(t, func(r *runconfig.RunConfig) {
		r.Proxy.Authorization = &runconfig.Authorization{
			Policies: []runconfig.Policy{{Name: "p", Text: `permit(principal, action, resource == Tool::"add");`}},
		}
	}), backend.URL)
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}`: "200 ",
		`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`:                         `200 {"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"add"}]}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"drop"}}`: `200 {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"NotPermitted: ` +
			`Client::\"anonymous\" may not call tool \"drop\": no policy permits it. To repeat the call does not help: the server's owner can permit it in spec.authzConfig, `,
		`{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"a"}}`:                            `200 {"jsonrpc":"2.0","id":7,"error":{"code":-32018,"message":"NotPermitted: Client::\"anonymous\" may not get prompt \"a\": no policy`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"A":1}}}`: `200 {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"NotJudged: tools/call: `,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","name":"drop"}}`:             `400 {"jsonrpc":"2.0","id":null,"error":{"code":-32019,"message":"NotJudged: `,
		"[" + strings.Repeat(" ", budget.MaxBody) +
			"]": `413 {"jsonrpc":"2.0","id":null,"error":{"code":-32016,"message":"BodyRefused: `,
	} {
		status, answer := p.send(body)
		if got := fmt.Sprintf("%d %s", status, answer); !strings.HasPrefix(got, want) {
			t.Errorf("%.80s: got %s, want %s", body, got, want)
		}
	}
	if got := reached.Load(); got != 2 {
		t.Errorf("%d calls reached the backend, want 2", got)
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
