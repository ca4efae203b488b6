package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// process is a runner, with a backend in this process.
type process struct {
	command       *exec.Cmd
	calls, probes string
	group         group
	gone          chan struct{}
	clean         []func()
}

// policies are some that read an argument.
var policies = []runconfig.Policy{
	{Name: "all", Text: "permit(principal, action, resource);"},
	{Name: "not", Text: "forbid(principal, action, resource) when { resource has arg_a && resource.arg_a.contains(-1) };"},
}

// start starts a runner under the default limit, which makes no backend: it has no mark.
func start(ctx context.Context, binary string, judged bool) (p *process, err error) {
	p = &process{gone: make(chan struct{})}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	backend, end, err := serveBackend(ctx)
	if err != nil {
		return nil, err
	}
	p.clean = append(p.clean, end)
	dir, err := os.MkdirTemp("", "attack-")
	if err != nil {
		return nil, err
	}
	p.clean = append(p.clean, func() { _ = os.RemoveAll(dir) }) //nolint:errcheck // the system does it else
	config, keys, err := write(dir, judged)
	if err != nil {
		return nil, err
	}
	if p.calls, err = free(ctx); err != nil {
		return nil, err
	}
	if p.probes, err = free(ctx); err != nil {
		return nil, err
	}
	p.command = exec.CommandContext(ctx, binary, "--config", config, "--backend", "http://"+backend, "--address", p.calls,
		"--probe-address", p.probes, "--session-keys", keys)
	p.command.Env = []string{"PATH=" + os.Getenv("PATH"), "GOMEMLIMIT=" + strconv.Itoa(limit)}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait() //nolint:errcheck // how it ended does not matter
		close(p.gone)
	}()
	p.group = enter(p.command.Process.Pid)
	return p, p.ready(ctx)
}

// write writes what a runner is told: its run config, and a key of sessions.
func write(dir string, judged bool) (config, keys string, err error) {
	run := runconfig.RunConfig{
		Version:  runconfig.Version,
		Server:   runconfig.Server{Namespace: "attack", Name: "attack", UID: "1"},
		Backend:  runconfig.Backend{Image: "attack", Port: 8080, Path: "/mcp", Transport: "streamable-http"},
		Proxy:    runconfig.Proxy{Port: 8000, Path: "/mcp"},
		Workload: runconfig.Workload{Generation: 1}, Rendering: runconfig.Rendering{Proxy: "p", Backend: "b"},
	}
	if judged {
		run.Proxy.Authorization = &runconfig.Authorization{Policies: policies}
	}
	if run.Workload.Hash, err = run.ContentHash(); err != nil {
		return "", "", err
	}
	data, err := run.Encode()
	if err != nil {
		return "", "", err
	}
	config, keys = filepath.Join(dir, "run.json"), filepath.Join(dir, "keys")
	if err := os.WriteFile(config, data, 0o600); err != nil {
		return "", "", err
	}
	if err := os.Mkdir(keys, 0o700); err != nil {
		return "", "", err
	}
	if err := os.WriteFile(filepath.Join(keys, runconfig.SessionKey), []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return "", "", err
	}
	return config, keys, nil
}

func free(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (p *process) ready(ctx context.Context) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.probes+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			continue
		}
		_ = response.Body.Close() //nolint:errcheck // its status is all there is
		if response.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("the runner at %s is not ready", p.calls)
}

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func (p *process) stop() {
	if p.command != nil && p.command.Process != nil {
		_ = p.command.Process.Kill() //nolint:errcheck // it may have ended
		<-p.gone
		p.group.leave()
	}
	for _, clean := range p.clean {
		clean()
	}
}

// resident is a number of the process's status, in bytes; 0 once it has ended.
func (p *process) resident(name string) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}

// group is a control group of the process, with the container's limit; empty where there is none to be had.
type group string

// The files of both versions (https://docs.kernel.org/admin-guide/cgroup-v2.html, and cgroup-v1/memory.html).
var groups = []struct{ root, limit, peak string }{
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
	{"/sys/fs/cgroup", "memory.max", "memory.peak"},
}

func enter(pid int) group {
	for _, version := range groups {
		dir := filepath.Join(version.root, "freehold-attack-"+strconv.Itoa(pid))
		if os.Mkdir(dir, 0o700) != nil {
			continue
		}
		set := func(file string, value int) error {
			return os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(value)), 0o600)
		}
		if set(version.limit, limit) == nil && set("cgroup.procs", pid) == nil {
			return group(dir)
		}
		group(dir).leave()
	}
	return ""
}

func (g group) peak() int64 {
	for _, version := range groups {
		if data, err := os.ReadFile(filepath.Join(string(g), version.peak)); g != "" && err == nil {
			n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

func (g group) leave() {
	if g != "" {
		_ = os.Remove(string(g)) //nolint:errcheck // it is empty now, or the system's to clean
	}
}
