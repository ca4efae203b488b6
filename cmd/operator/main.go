// Command freehold-operator runs the controllers of Freehold.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/cmd/internal/memory"
	"github.com/freehold-dev/freehold/controllers"
)

// version is set by the linker.
var version = "dev"

func main() {
	settings, err := parse(os.Args[1:], os.Stderr)
	switch {
	case err == flag.ErrHelp: //nolint:errorlint // the flag package returns it bare
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "freehold-operator:", err)
		os.Exit(2)
	}
	if err := run(ctrl.SetupSignalHandler(), settings); err != nil {
		fmt.Fprintln(os.Stderr, "freehold-operator:", err)
		os.Exit(1)
	}
}

// gcPercent makes the collector run five times as often as by default. The peak of the heap while servers start
// decides how fragmented it stays, and fragments cannot be returned. GOGC overrides it.
const gcPercent = 20

// worthwhile is the garbage in bytes after which memory is returned: that of some minutes at rest, or of a second of
// a burst.
const worthwhile = 16 << 20

func run(ctx context.Context, s settings) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	go memory.GiveBack(worthwhile)
	if !s.profiling {
		runtime.MemProfileRate = 0 // samples take 2 MB, and nobody reads them
	}
	logger := logr.FromSlogHandler(s.logFormat.Handler(os.Stderr, s.logLevel))
	log.SetLogger(logger)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	s.limit(config)
	config.UserAgent = "freehold-operator/" + version
	mgr, err := newManager(config, s)
	if err != nil {
		return err
	}
	if err := controllers.Register(ctx, mgr, s.controllers); err != nil {
		return err
	}
	logger.Info("starting", "version", version, "runnerImage", s.controllers.Workload.RunnerImage)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

// newManager makes a manager whose cache holds only what is ours.
func newManager(config *rest.Config, s settings) (manager.Manager, error) {
	scheme, err := controllers.NewScheme()
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	cacheOptions, err := controllers.CacheOptions(config, s.controllers.Namespaces,
		s.controllers.Workload.Objects.InheritLabels...)
	if err != nil {
		return nil, fmt.Errorf("configuring the cache: %w", err)
	}
	options := manager.Options{
		Scheme:                 scheme,
		Cache:                  cacheOptions,
		HealthProbeBindAddress: s.probeAddress,
		Metrics:                s.metrics(),
		LeaderElection:         s.leaderElect,
		// Names the leader's metric; the lock is made below.
		LeaderElectionID: contract.LeaseName,
		LeaseDuration:    &s.lease.duration,
		RenewDeadline:    &s.lease.renewDeadline,
		RetryPeriod:      &s.lease.retryPeriod,
		// The process ends when its context does, so the lease can be given up.
		LeaderElectionReleaseOnCancel: true,
	}
	if s.profiling {
		options.PprofBindAddress = profilingAddress
	}
	if s.leaderElect {
		if options.LeaderElectionResourceLockInterface, err = s.lock(config); err != nil {
			return nil, fmt.Errorf("preparing leader election: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("livez", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("readyz", synced(mgr.GetCache()))
}

// synced is ready once the cache has read the cluster.
func synced(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		if !c.WaitForCacheSync(r.Context()) {
			return fmt.Errorf("the cache is not filled yet")
		}
		return nil
	}
}
