package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// binary is the runner, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "freehold-runner-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "freehold-runner")
	out, err := exec.Command("go", "build", "-tags", "fieldsv1string", "-ldflags", "-s -w", "-o", path, ".").
		CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building: %w\n%s", err, out)
	}
	return path, nil
})

// sample is a run config whose content has the hash of its revision.
func sample(t *testing.T, edit ...func(*runconfig.RunConfig)) runconfig.RunConfig {
	t.Helper()
	run := runconfig.RunConfig{
		Version:   runconfig.Version,
		Server:    runconfig.Server{Namespace: "team", Name: "echo", UID: "1111"},
		Backend:   runconfig.Backend{Image: "echo:1", Port: 8080, Path: "/mcp", Transport: "streamable-http"},
		Proxy:     runconfig.Proxy{Port: 8000, Path: "/mcp"},
		Rendering: runconfig.Rendering{Proxy: "p", Backend: "b"},
	}
	for _, e := range edit {
		e(&run)
	}
	hash, err := run.ContentHash()
	if err != nil {
		t.Fatal(err)
	}
	run.Workload = runconfig.Workload{Generation: 7, Hash: hash}
	return run
}

func file(t *testing.T, run runconfig.RunConfig) string {
	t.Helper()
	data, err := run.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text(t, string(data))
}

func text(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), runconfig.FileName)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a runner that runs.
type process struct {
	t             *testing.T
	command       *exec.Cmd
	calls, probes string
	mu            sync.Mutex
	log           bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// keys is a directory with a key of session ids.
func keys(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, runconfig.SessionKey), []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start runs the binary in front of backend, with an API server that nobody
// answers for.
func start(t *testing.T, run runconfig.RunConfig, backend string, more ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, calls: address(t), probes: address(t)}
	isFlag := func(s string) bool { return strings.HasPrefix(s, "--") }
	flags := slices.DeleteFunc(slices.Clone(more), func(s string) bool { return !isFlag(s) })
	p.command = exec.Command(path,
		append(flags, "--config", file(t, run), "--address", p.calls, "--probe-address", p.probes, "--backend", backend,
			"--session-keys", keys(t))...)
	kubeconfig := text(t,
		`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],`+
			`"clusters":[{"name":"x","cluster":{"server":"http://`+address(t)+`"}}]}`)
	p.command.Env = append([]string{"KUBECONFIG=" + kubeconfig, "PATH=" + os.Getenv("PATH")},
		slices.DeleteFunc(more, isFlag)...)
	p.command.Stderr = p
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
	})
	p.await("it is alive", func() bool { return p.get("/livez") == http.StatusOK })
	return p
}

func (p *process) await(what string, is func() bool) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("waited in vain until %s; it said:\n%s", what, p.said())
		}
	}
}

// get asks the probes, 0 if they do not answer.
func (p *process) get(path string) int {
	response, err := http.Get("http://" + p.probes + path)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

func (p *process) call() (int, string) {
	p.t.Helper()
	return p.send("{}")
}

func (p *process) send(message string) (int, string) {
	p.t.Helper()
	response, err := http.Post("http://"+p.calls+"/mcp", "application/json", strings.NewReader(message))
	if err != nil {
		p.t.Fatalf("%v; it said:\n%s", err, p.said())
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// asksWhoIsThere answers the runner's own messages: with a wish for credentials,
// which is MCP enough.
func asksWhoIsThere(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil || !bytes.Contains(body, []byte(`"method"`)) {
		return false
	}
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

func answering(t *testing.T, answer string) string {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !asksWhoIsThere(w, r) {
			_, _ = io.WriteString(w, answer)
		}
	}))
	t.Cleanup(backend.Close)
	return backend.URL
}

func carrying(generation, hash string) []string {
	return []string{runconfig.EnvGeneration + "=" + generation, runconfig.EnvHash + "=" + hash}
}
