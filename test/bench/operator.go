package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/test/kit"
)

// runOperator is Freehold's operator as cmd/operator makes it, without leader election and without servers of its own.
func runOperator(ctx context.Context, config *rest.Config, s settings, ready func()) error {
	mgr, err := newManager(config, s)
	if err != nil {
		return err
	}
	options := controllers.Options{
		Workload: podtemplate.Release{RunnerImage: runnerImage}, Concurrency: s.Workers,
		IdentityNamespace:  kit.SystemNamespace,
		ConfigRolloutShare: s.Share,
		AskProxy:           proxyOf(mgr.GetClient()),
		SkipNameValidation: true, // runSeveral runs it several times
	}
	if err := controllers.Register(ctx, mgr, options); err != nil {
		return err
	}
	return start(ctx, mgr, ready)
}

// newManager is the manager of a subject that is an operator, with the cache of Freehold's.
func newManager(config *rest.Config, s settings) (ctrl.Manager, error) {
	scheme, err := controllers.NewScheme()
	if err != nil {
		return nil, err
	}
	cacheOptions, err := controllers.CacheOptions(config, nil)
	if err != nil {
		return nil, err
	}
	return managerWith(config, s, scheme, cacheOptions)
}

func managerWith(
	config *rest.Config, s settings, scheme *runtime.Scheme, cacheOptions cache.Options,
) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: scheme, Cache: cacheOptions,
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Client:     client.Options{Cache: &client.CacheOptions{}},
		Controller: ctrlconfig.Controller{UsePriorityQueue: &s.PriorityQueue},
	})
	if err != nil {
		return nil, fmt.Errorf("building a manager: %w", err)
	}
	return mgr, nil
}

func start(ctx context.Context, mgr ctrl.Manager, ready func()) error {
	go func() {
		if mgr.GetCache().WaitForCacheSync(ctx) {
			ready()
		}
	}()
	return mgr.Start(ctx)
}
