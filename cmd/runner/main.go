// Command freehold-runner runs in the proxy pod of one server: it applies the
// backend, and passes calls on to it.
//
// main.go is the life of the process, memory.go what it takes of the machine,
// settings.go what it is told, serve.go what the proxy serves, guard.go what stands
// in front of that, translate.go what translates between the eras of MCP, login.go whose tokens are accepted, watch.go
// what it sees of the cluster, passes.go the loop that applies and reports, learn.go what it asks the
// backend, door.go by which way, detection.go what it waits for, asking.go how, and answer.go what it makes of an
// answer. As `freehold-runner bridge`, internal/bridge/program, it runs in the backend's pod of a server that does not speak
// streamable HTTP.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge/program"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/call"
	"github.com/freehold-dev/freehold/cmd/runner/internal/probes"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// version is set by the linker.
var version = "dev"

// misconfigured is the exit code for what a restart cannot cure.
const misconfigured = 2

func main() {
	if len(os.Args) > 1 && os.Args[1] == "call" { // what helm test runs
		os.Exit(call.Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == runconfig.BridgeCommand {
		os.Exit(program.Main(os.Args[2:]))
	}
	go giveBack()
	memory := memoryOf(debug.SetMemoryLimit(-1))
	s, err := read(os.Args[1:], os.LookupEnv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "freehold-runner:", err)
		os.Exit(misconfigured)
	}
	logger := slog.New(s.logFormat.Handler(os.Stderr, s.logLevel)).
		With("namespace", s.run.Server.Namespace, "server", s.run.Server.Name,
			"generation", s.run.Workload.Generation)
	log.SetLogger(logr.FromSlogHandler(logger.Handler()))
	klog.SetSlogLogger(logger)
	// Nothing is applied once ctx has ended.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the drain
	if err := run(ctx, s, memory, logger); err != nil {
		fmt.Fprintln(os.Stderr, "freehold-runner:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, then drains. Serving does not wait for the API
// server, nor end with it.
func run(ctx context.Context, s settings, memory *budget.Budget, logger *slog.Logger) error {
	logger.Info("starting", "version", version)
	who, err := login(s, logger)
	if err != nil {
		return err
	}
	failed := make(chan error, 4)
	elsewhere, err := s.bridgeFar(ctx, logger, failed)
	if err != nil {
		return err
	}
	config, err := proxyConfig(s, who, memory, logger)
	if err != nil {
		return err
	}
	front := proxy.New(config)
	server := front.Server()
	if who != nil {
		server.Handler = who.Describe(server.Handler)
	}
	calls, err := proxy.Listen(ctx, s.calls)
	if err != nil {
		return fmt.Errorf("listening for calls: %w", err)
	}
	probing, err := new(net.ListenConfig).Listen(ctx, "tcp", s.probes)
	if err != nil {
		return fmt.Errorf("listening for probes: %w", err)
	}
	calls = budget.Listen(calls, memory.Connections, budget.MaxFields)
	probing = budget.Listen(probing, share.New(probes.MaxConnections, share.Half(probes.MaxConnections)), probes.MaxFields)
	inside := newDoor()
	s.inside = inside.dial
	state := &probes.State{Metrics: measured(front)}
	probeServer := state.Server()
	go proxy.Serve(server, calls, failed)
	go proxy.Serve(inside.serves(front), inside, failed)
	go proxy.Serve(probeServer, probing, failed)
	if len(s.run.NotEnforced) > 0 {
		state.Answered() // the refusal is the answer
	} else {
		go state.Await(ctx, s.readiness())
	}
	go applyAndReport(ctx, s, logger)

	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	logger.Info("draining")
	state.Drain()
	budget := proxy.BudgetOf(time.Duration(cmp.Or(s.run.Proxy.GraceSeconds, runconfig.DefaultGrace)) * time.Second)
	until := time.Now().Add(budget.Propagation + budget.Calls + budget.Last)
	front.Drain(server, budget)
	elsewhere.end(until.Add(lastCalls))
	logger.Info("drained")
	return probeServer.Close()
}

// measured answers with what a proxy has counted, and what the process takes.
func measured(front *proxy.Proxy) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(front.Metrics()...)
	// Compressing would take more memory than the rest of it.
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true, MaxRequestsInFlight: 2})
}

// lastCalls is how long calls of other proxies may take once this one has drained, of what
// a drain leaves kubelet.
const lastCalls = 2 * time.Second
