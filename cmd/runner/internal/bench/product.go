package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// startProduct starts the runner's own binary. It has no mark, so it serves and
// applies nothing.
func startProduct(ctx context.Context, binary, dir, backend string) (*process, error) {
	run := runconfig.RunConfig{
		Version:  runconfig.Version,
		Server:   runconfig.Server{Namespace: "bench", Name: "bench", UID: "1"},
		Backend:  runconfig.Backend{Image: "bench", Port: 8080, Path: "/mcp", Transport: "streamable-http"},
		Proxy:    runconfig.Proxy{Port: 8000, Path: "/mcp"},
		Workload: runconfig.Workload{Generation: 1}, Rendering: runconfig.Rendering{Proxy: "p", Backend: "b"},
	}
	hash, err := run.ContentHash()
	if err != nil {
		return nil, fmt.Errorf("hashing a run config: %w", err)
	}
	run.Workload.Hash = hash
	data, err := run.Encode()
	if err != nil {
		return nil, fmt.Errorf("encoding a run config: %w", err)
	}
	file := filepath.Join(dir, runconfig.FileName)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, fmt.Errorf("writing a run config: %w", err)
	}
	var free [2]string
	for i := range free {
		listener, err := listen()
		if err != nil {
			return nil, err
		}
		free[i] = listener.Addr().String()
		_ = listener.Close() //nolint:errcheck // the runner says if it is taken
	}
	p := &process{calls: free[0]}
	p.command = exec.CommandContext(ctx, binary, "--config", file, "--backend", "http://"+backend,
		"--address", free[0], "--probe-address", free[1], "--log-level", "error")
	p.command.Env = []string{"PATH=" + os.Getenv("PATH")}
	p.command.Stderr = os.Stderr
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the runner: %w", err)
	}
	if err := awaitReady(ctx, "http://"+free[1]+"/readyz"); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for ; ; time.Sleep(50 * time.Millisecond) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return fmt.Errorf("asking whether the runner is ready: %w", err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close() //nolint:errcheck // its status is all there is
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the runner is not ready: %w", ctx.Err())
		}
	}
}
