// Command freehold-runner runs in the proxy pod of one server: it applies the
// backend, and passes calls on to it.
//
// main.go is the life of the process, settings.go what it is told, watch.go
// the loop that applies, learn.go what it asks the backend.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/probes"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// version is set by the linker.
var version = "dev"

// misconfigured is the exit code for what a restart cannot cure.
const misconfigured = 2

func main() {
	s, err := read(os.Args[1:], os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "freehold-runner:", err)
		os.Exit(misconfigured)
	}
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	// Nothing is applied once ctx has ended.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, s, logger); err != nil {
		fmt.Fprintln(os.Stderr, "freehold-runner:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, then drains.
func run(ctx context.Context, s settings, logger *slog.Logger) error {
	logger.Info("starting", "version", version, "server", s.run.Server.Namespace+"/"+s.run.Server.Name,
		"workloadGeneration", s.run.Workload.Generation)
	state := &probes.State{}
	front := proxy.New(proxyConfig(s.run, state, logger))
	calls, err := net.Listen("tcp", ":"+strconv.Itoa(int(s.run.Proxy.Port)))
	if err != nil {
		return fmt.Errorf("listening for calls: %w", err)
	}
	probing, err := net.Listen("tcp", ":"+strconv.Itoa(runconfig.ProbePort))
	if err != nil {
		return fmt.Errorf("listening for probes: %w", err)
	}
	server, probeServer := front.Server(), state.Server()
	failed := make(chan error, 2)
	go serve(server, calls, failed)
	go serve(probeServer, probing, failed)
	if len(s.run.NotEnforced) > 0 {
		state.Answered() // the refusal is the answer
	} else {
		go state.Await(ctx, backendURL(s.run).String()+s.run.Backend.Path)
	}
	go applyAndReport(ctx, s, logger)

	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	logger.Info("draining")
	state.Drain()
	front.Drain(server, proxy.DefaultBudget)
	return probeServer.Close()
}

func serve(server *http.Server, listener net.Listener, failed chan<- error) {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		failed <- err
	}
}

// backendURL is the Service in front of the backend.
func backendURL(run runconfig.RunConfig) *url.URL {
	host := workload.BackendName(run.Server.Name) + "." + run.Server.Namespace + ".svc"
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(run.Backend.Port)))}
}

func proxyConfig(run runconfig.RunConfig, state *probes.State, logger *slog.Logger) proxy.Config {
	config := proxy.Config{
		Path:                  run.Proxy.Path,
		Backend:               backendURL(run),
		AllowedOrigins:        run.Proxy.AllowedOrigins,
		Hosts:                 hosts(run),
		TrustForwardedHeaders: run.Proxy.TrustForwardedHeaders,
		Answered:              state.Answered,
		Log:                   logger,
	}
	if len(run.NotEnforced) > 0 {
		config.Refusal = fmt.Sprintf("NotEnforced: %s is set, and this version does not enforce it", strings.Join(run.NotEnforced, ", "))
	}
	return config
}

// hosts are the names under which clients know the proxy.
func hosts(run runconfig.RunConfig) []string {
	service := workload.ProxyName(run.Server.Name)
	names := []string{service, service + "." + run.Server.Namespace, service + "." + run.Server.Namespace + ".svc"}
	if u, err := url.Parse(run.Proxy.PublicURL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	return names
}
