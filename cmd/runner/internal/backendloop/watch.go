package backendloop

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/applyconfig"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// cluster is the part of the cluster that concerns one server.
type cluster struct {
	namespace string
	config    *rest.Config
	scheme    *runtime.Scheme
	mapper    meta.RESTMapper
	// wake holds an element when something changed since it was last received, and owner when the server did.
	wake, owner chan struct{}
	// late is told that it takes long to read.
	late func()
}

// connect gives the runner its clients. It sends no request: kinds are known
// beforehand, so that an API server which is down does not matter here.
func connect(config *rest.Config, runner *backend.Runner) (*cluster, error) {
	c := &cluster{
		namespace: runner.Run.Server.Namespace, config: config,
		scheme: runtime.NewScheme(), mapper: mapper(), wake: make(chan struct{}, 1),
		owner: make(chan struct{}, 1),
	}
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(c.scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	live, err := client.New(config, client.Options{Scheme: c.scheme, Mapper: c.mapper})
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	converter := apply.NewConverter(c.scheme, map[string]managedfields.TypeConverter{
		v1alpha1.SchemeGroupVersion.Group: applyconfig.NewTypeConverter(c.scheme),
	})
	runner.Live, runner.Applier = live, apply.New(live, live, converter, contract.Freehold())
	return c, nil
}

// watch fills the runner's cache: its owner, and, where it has a backend, three objects of each slot that the status
// names, by name, because a role by resourceNames allows no other watch. It returns when the owner has been read, or
// ctx ends.
func (c *cluster) watch(ctx context.Context, runner *backend.Runner) (*slots, error) {
	name := runner.Run.Server.Name
	kind, known := kinds.Named(runner.Run.Server.Kind)
	if !known {
		return nil, fmt.Errorf("the run config is of a %s, which this runner does not know", runner.Run.Server.Kind)
	}
	owner, err := c.cacheOf(ctx, map[client.Object]string{kind.New(): name}, c.owner, c.wake)
	if err != nil {
		return nil, err
	}
	s := &slots{Reader: owner, ctx: ctx, watch: c.watchSlot, name: name, running: map[workload.Slot]*watched{}}
	runner.Reader = s
	late := time.AfterFunc(readTime, c.late)
	defer late.Stop()
	if !c.start(ctx, owner)(ctx) {
		return nil, ctx.Err()
	}
	return s, nil
}

// watchSlot reads the objects of a slot from caches, which end with ctx.
func (c *cluster) watchSlot(ctx context.Context, slot workload.Slot, name string) (*watched, error) {
	// A cache holds one name of each kind, and there are two Services.
	one, err := c.cacheOf(ctx, map[client.Object]string{
		&appsv1.StatefulSet{}: slot.Name(name), &corev1.Service{}: slot.Name(name),
	}, c.wake)
	if err != nil {
		return nil, err
	}
	other, err := c.cacheOf(ctx, map[client.Object]string{&corev1.Service{}: slot.HeadlessName(name)}, c.wake)
	if err != nil {
		return nil, err
	}
	return &watched{named: one, headless: other, synced: c.start(ctx, one, other)}, nil
}

// start starts caches, which retry in silence. Synced waits until they have been read, or its own context ends.
func (c *cluster) start(ctx context.Context, caches ...cache.Cache) (synced func(context.Context) bool) {
	for _, each := range caches {
		go func() { _ = each.Start(ctx) }() //nolint:errcheck // it ends with ctx, and fails only if started twice
	}
	return func(ctx context.Context) bool {
		return !slices.ContainsFunc(caches, func(each cache.Cache) bool { return !each.WaitForCacheSync(ctx) })
	}
}

// cacheOf is a cache of objects, by name. Their changes ring.
func (c *cluster) cacheOf(
	ctx context.Context, objects map[client.Object]string, bells ...chan struct{},
) (cache.Cache, error) {
	options := cache.Options{
		Scheme: c.scheme, Mapper: c.mapper,
		DefaultNamespaces: map[string]cache.Config{c.namespace: {}},
		ByObject:          map[client.Object]cache.ByObject{},
	}
	for object, name := range objects {
		options.ByObject[object] = cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, name)}
	}
	cached, err := cache.New(c.config, options)
	if err != nil {
		return nil, fmt.Errorf("building the cache: %w", err)
	}
	for object := range objects {
		informer, err := cached.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		handler := toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { ring(bells) },
			UpdateFunc: func(any, any) { ring(bells) },
			DeleteFunc: func(any) { ring(bells) },
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return cached, nil
}

func ring(bells []chan struct{}) {
	for _, bell := range bells {
		select {
		case bell <- struct{}{}:
		default: // it has been rung, and not been heard yet
		}
	}
}

// mapper knows the runner's kinds, so that it needs no discovery.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds.All() {
		m.Add(kind.Object.GroupVersionKind, meta.RESTScopeNamespace)
	}
	m.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	m.Add(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
	return m
}
