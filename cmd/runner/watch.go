package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// applyAndReport applies the backend and reports on it until ctx ends. Calls
// are served whatever becomes of it.
func applyAndReport(ctx context.Context, s settings, logger *slog.Logger) {
	log.SetLogger(logr.FromSlogHandler(logger.Handler()))
	runner := &backend.Runner{Run: s.run, Env: s.env, EnvErr: s.envErr}
	if err := runner.Disagreement(); err != nil {
		logger.Warn("nothing will be applied, calls are served", "why", err.Error())
		return
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		logger.Error("nothing will be applied, calls are served", "why", err.Error())
		return
	}
	config.UserAgent = "freehold-runner/" + version
	watched, err := watch(ctx, config, runner)
	if err != nil {
		logger.Error("nothing will be applied, calls are served", "why", err.Error())
		return
	}
	for _, c := range watched.caches {
		if !c.WaitForCacheSync(ctx) {
			return
		}
	}
	passes(ctx, runner, watched.wake, logger)
}

// backoff is how long a pass that failed waits for the next.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: time.Minute}

// passes makes a pass for each wake, and learns from the backend once for each
// of its starts.
func passes(ctx context.Context, runner *backend.Runner, wake chan struct{}, logger *slog.Logger) {
	learned, said := make(chan backend.Facts), ""
	var asked backend.Start
	pause := backoff
	for {
		report, err := runner.Pass(ctx)
		if ctx.Err() != nil {
			return
		}
		var retry <-chan time.Time
		if err != nil {
			logger.Error("applying", "error", err.Error())
			retry = time.After(pause.Step())
		} else {
			pause = backoff
		}
		if state := fmt.Sprintf("%s %s %s", report.Verdict, report.Waiting, report.Finding.Message); state != said {
			said = state
			logger.Info("pass", "gate", report.Verdict.String(), "waiting", report.Waiting, "backend", report.Finding.Message)
		}
		if report.Start != asked && report.Start != (backend.Start{}) {
			asked = report.Start
			go ask(ctx, runner.Run, learned, logger)
		}
		select {
		case <-wake:
		case <-retry:
		case facts := <-learned:
			runner.Learn(facts)
		case <-ctx.Done():
			return
		}
	}
}

// watched is the part of the cluster that concerns one server: four objects by
// name, because a role by resourceNames allows no other watch.
type watched struct {
	caches []cache.Cache
	wake   chan struct{}
}

// watch starts the caches and gives runner its clients.
func watch(ctx context.Context, config *rest.Config, runner *backend.Runner) (watched, error) {
	scheme, err := controllers.NewScheme()
	if err != nil {
		return watched{}, err
	}
	mapper := mapper()
	live, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return watched{}, fmt.Errorf("connecting: %w", err)
	}
	name := runner.Run.Server.Name
	w := watched{wake: make(chan struct{}, 1)}
	// One cache holds one name of a kind, and there are two Services.
	for _, objects := range []map[client.Object]string{
		{&v1alpha1.MCPServer{}: name, &appsv1.StatefulSet{}: workload.BackendName(name), &corev1.Service{}: workload.BackendName(name)},
		{&corev1.Service{}: workload.HeadlessName(name)},
	} {
		c, err := w.cacheOf(ctx, config, scheme, mapper, runner.Run.Server, objects)
		if err != nil {
			return watched{}, err
		}
		w.caches = append(w.caches, c)
		go func() { _ = c.Start(ctx) }() //nolint:errcheck // it ends with ctx, and returns an error only if started twice
	}
	runner.Reader = byName{Reader: w.caches[0], headless: w.caches[1], name: workload.HeadlessName(name)}
	runner.Live, runner.Applier = live, controllers.NewApplier(live, live)
	return w, nil
}

func (w *watched) cacheOf(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper, server runconfig.Server, objects map[client.Object]string) (cache.Cache, error) {
	options := cache.Options{
		Scheme: scheme, Mapper: mapper,
		DefaultNamespaces: map[string]cache.Config{server.Namespace: {}},
		ByObject:          map[client.Object]cache.ByObject{},
	}
	for object, name := range objects {
		options.ByObject[object] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	c, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("building the cache: %w", err)
	}
	ring := func() {
		select {
		case w.wake <- struct{}{}:
		default: // a pass is due already
		}
	}
	for object := range objects {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		handler := toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { ring() },
			UpdateFunc: func(any, any) { ring() },
			DeleteFunc: func(any) { ring() },
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return c, nil
}

// byName reads the headless Service from the cache that holds it.
type byName struct {
	client.Reader
	headless client.Reader
	name     string
}

// Get reads from the cache that watches the object of that kind and name.
func (r byName) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*corev1.Service); ok && key.Name == r.name {
		return r.headless.Get(ctx, key, obj, opts...)
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}

// mapper knows the runner's kinds, so that it needs no discovery.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range []schema.GroupVersionKind{
		v1alpha1.SchemeGroupVersion.WithKind("MCPServer"),
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		corev1.SchemeGroupVersion.WithKind("Service"),
	} {
		m.Add(gvk, meta.RESTScopeNamespace)
	}
	return m
}
