// Command freehold-runner runs in the proxy pod of one server: it applies the
// backend, and passes calls on to it.
//
// Read serve first. What it serves is in internal/proxy and internal/target, what it asks the server in internal/probe,
// what it applies in internal/backendloop. As `freehold-runner bridge`, internal/bridge/program, it runs in the
// backend's pod of a server that does not speak streamable HTTP.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/backendloop"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge/program"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/call"
	"github.com/freehold-dev/freehold/cmd/runner/internal/health"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/probe"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
	"github.com/freehold-dev/freehold/cmd/runner/internal/target"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// version is set by the linker.
var version = "dev"

// userAgent is the program, as the API server logs it.
func userAgent() string { return "freehold-runner/" + version }

// misconfigured is the exit code for what a restart cannot cure.
const misconfigured = 2

func main() {
	if len(os.Args) > 1 && os.Args[1] == "call" { // what helm test runs
		os.Exit(call.Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == runconfig.ReachCommand {
		os.Exit(call.Reach(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
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
	run := s.runner.Run
	logger := slog.New(s.logFormat.Handler(os.Stderr, s.logLevel)).
		With("namespace", run.Server.Namespace, "server", run.Server.Name, "generation", run.Workload.Generation)
	log.SetLogger(logr.FromSlogHandler(logger.Handler()))
	klog.SetSlogLogger(logger)
	// Nothing is applied once ctx has ended.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the drain
	if err := serve(ctx, s, memory, logger); err != nil {
		fmt.Fprintln(os.Stderr, "freehold-runner:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends, then drains. What serves does not end with the API server.
func serve(ctx context.Context, s settings, memory *budget.Budget, logger *slog.Logger) error {
	logger.Info("starting", "version", version)
	failed := make(chan error, 4)
	front, server, end, err := s.front(ctx, memory, logger, failed)
	if err != nil {
		return err
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
	probing = budget.Listen(probing, share.New(health.MaxConnections, share.Half(health.MaxConnections)), health.MaxFields)
	door, own := probe.NewDoor(), probe.NewDoor()
	var ready []func(context.Context) bool
	for _, to := range s.targets {
		ready = append(ready, to.Ready, asking(to, door, front, false).Ready)
	}
	loop := s.loop(front, door, own, logger)
	state := &health.State{Metrics: measured(front), Routing: front.Routing(s.runner.Run.Proxy.Path)}
	probeServer := state.Server()
	go proxy.Serve(server, calls, failed)
	go proxy.Serve(door.Server(front, front.Inside()), door, failed)
	go proxy.Serve(own.Server(front, front.Own()), own, failed)
	go proxy.Serve(probeServer, probing, failed)
	go loop.Run(ctx)
	go state.Await(ctx, ready...)

	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	logger.Info("draining")
	state.Drain()
	times := proxy.DrainTimesOf(time.Duration(
		cmp.Or(s.runner.Run.Proxy.GraceSeconds, runconfig.DefaultGrace)) * time.Second)
	until := time.Now().Add(times.Propagation + times.Calls + times.Last)
	front.Drain(server, times)
	end(until.Add(lastCalls))
	logger.Info("drained")
	return probeServer.Close()
}

// asking asks a server by a door. Own is as for Proxy.Asked.
func asking(to *target.Target, by *probe.Door, front *proxy.Proxy, own bool) *probe.Prober {
	run := to.Run()
	return &probe.Prober{
		Server: run, Endpoint: to.Endpoint(), Dial: by.Dial, Version: version, Asked: front.Asked(run.Proxy.Path, own),
	}
}

// loop applies the backend of the runner's own server, asks it, also before it gets calls, and has the proxy go where
// the status says.
func (s settings) loop(front *proxy.Proxy, door, own *probe.Door, logger *slog.Logger) *backendloop.Loop {
	path := s.runner.Run.Proxy.Path
	to := s.targets[path]
	s.runner.ProxySums = to.ProxySums
	loop := &backendloop.Loop{
		Runner: s.runner, UserAgent: userAgent(), Ask: asking(to, own, front, true).Ask, Observe: to.Observe, Log: logger,
		Compare: func(ctx context.Context, log *slog.Logger, tell func(v1alpha1.CandidateStatus)) {
			there := func() bool { return front.Calls(path, s.runner.Run.Rendering.Backend) }
			asking(to, own, front, true).Compare(ctx, log, asking(to, door, front, false), there, tell)
		},
		AskServing: func(ctx context.Context, log *slog.Logger, of runconfig.Backend, tell func(backend.Facts)) {
			serving := asking(to, door, front, false)
			serving.Server.Backend = of
			serving.Ask(ctx, log, tell)
		},
	}
	to.RestoreMembers(logger)
	to.Follow(func(upstreams proxy.Upstreams) { front.Switch(path, upstreams) }, loop.Refresh, logger)
	return loop
}

// front serves all targets. It tells failed where what goes with one cannot be served any more.
func (s settings) front(
	ctx context.Context, memory *budget.Budget, logger *slog.Logger, failed chan<- error,
) (front *proxy.Proxy, server *http.Server, end func(until time.Time), err error) {
	served, logins, ends := map[string]proxy.Config{}, []*oidc.Login{}, []func(time.Time){}
	for _, path := range slices.Sorted(maps.Keys(s.targets)) {
		to := s.targets[path]
		end, err := to.ServePeers(ctx, logger, failed)
		if err != nil {
			return nil, nil, nil, err
		}
		config, login, err := to.Proxy(logger)
		if err != nil {
			return nil, nil, nil, err
		}
		ends, logins, served[path] = append(ends, end), append(logins, login), config
	}
	front = proxy.New(proxy.Process{Memory: memory, Log: logger}, served)
	return front, front.Server(oidc.Describe(logins...)), func(until time.Time) {
		for _, end := range ends {
			end(until)
		}
	}, nil
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
