// Package controllers lists the reconcilers of the operator, and what their shared cache keeps.
package controllers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/managedfields"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/applyconfig"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/complaints"
	"github.com/freehold-dev/freehold/controllers/configs"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/configs/store"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/controllers/routes"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Register adds every reconciler to a manager with the cache of CacheOptions. It returns an error if one cannot be
// added, or if the cluster lacks one of the kinds.
func Register(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := checkKindsServed(mgr.GetRESTMapper()); err != nil {
		return err
	}
	applier := NewApplier(mgr.GetClient(), mgr.GetAPIReader())
	if options.Now != nil {
		applier.Now = options.Now
	}
	if options.IdentityNamespace != "" {
		if err := applier.Impersonate(mgr.GetConfig(), options.IdentityNamespace, contract.Controllers()...); err != nil {
			return err
		}
	}
	if err := references.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	said, err := watchComplaints(ctx, mgr, options.Namespaces)
	if err != nil {
		return err
	}
	indexed, err := addIndex(ctx, mgr)
	if err != nil {
		return err
	}
	published, err := watchRoutes(mgr, options)
	if err != nil {
		return err
	}
	var registered []reconcile.Kind
	large, known := &reconcile.LargeQueue{}, store.New()
	for _, kind := range kinds.All() {
		reader := snapshot.NewReader(kind, indexed, mgr.GetAPIReader())
		reader.Routes = published
		reader.Configs, reader.Complaints, reader.Percent = known, said, cmp.Or(options.ConfigRolloutShare, reader.Percent)
		if reader.AskProxy = options.AskProxy; reader.AskProxy == nil {
			reader.AskProxy = snapshot.NewAskProxy()
		}
		servers := mcpserver.New(reader, applier, mgr.GetEventRecorder(kind.Identity), options.Workload)
		servers.Large = large
		if err := servers.Register(mgr, options.controller()); err != nil {
			return fmt.Errorf("registering the %s controller: %w", kind.Object.Kind, err)
		}
		registered = append(registered, servers.Kind)
	}
	for _, kind := range registry.All() {
		row := kind.Row()
		shared := configs.New(kind, mgr.GetClient(), mgr.GetAPIReader(), applier, mgr.GetEventRecorder(row.Identity))
		shared.Large, shared.Store = large, known
		shared.Percent = cmp.Or(options.ConfigRolloutShare, shared.Percent)
		if err := shared.Register(mgr, options.controller()); err != nil {
			return fmt.Errorf("registering the %s controller: %w", row.Object.Kind, err)
		}
		registered = append(registered, shared.Kind)
	}
	registerObjectMetrics(mgr.GetClient(), mgr.GetScheme(), registered...)
	return nil
}

// watchComplaints keeps Events about pods of these namespaces, and why kubelet ended pods, while the manager runs.
func watchComplaints(ctx context.Context, mgr ctrl.Manager, namespaces []string) (*complaints.Store, error) {
	reader, err := client.NewWithWatch(mgr.GetConfig(),
		client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("building the reader of Events: %w", err)
	}
	said := &complaints.Store{}
	pods, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("building the watch of pods: %w", err)
	}
	if _, err := pods.AddEventHandler(said.OfPods()); err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return said, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return said.Watch(ctx, reader, namespaces)
	}))
}

// watchRoutes keeps HTTPRoutes of ours in these namespaces, while the manager runs and the cluster serves them.
func watchRoutes(mgr ctrl.Manager, options Options) (*routes.Source, error) {
	kept, err := routeCacheOptions(options.Namespaces)
	if err != nil {
		return nil, err
	}
	build := func(failed toolscache.WatchErrorHandlerWithContext) (cache.Cache, error) {
		kept.Scheme, kept.Mapper, kept.HTTPClient = mgr.GetScheme(), mgr.GetRESTMapper(), mgr.GetHTTPClient()
		kept.DefaultWatchErrorHandler = failed
		return cache.New(mgr.GetConfig(), kept)
	}
	now := options.Now
	if now == nil {
		now = time.Now
	}
	source := routes.New(mgr.GetRESTMapper(), build, func(labels map[string]string) string {
		return labels[workload.LabelServer]
	}, now)
	return source, mgr.Add(source)
}

// routeCacheOptions describes a cache of HTTPRoutes that keeps those with our label, and of a large one a part: anybody
// may write one.
func routeCacheOptions(namespaces []string) (cache.Options, error) {
	ours, err := labels.NewRequirement(workload.LabelServer, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	return cache.Options{
		DefaultLabelSelector: labels.NewSelector().Add(*ours), DefaultNamespaces: defaultNamespaces(namespaces),
		DefaultTransform: newInterner().trim,
	}, nil
}

// NewApplier returns the applier of Freehold's contract. live reads from the API server.
func NewApplier(c client.Client, live client.Reader) *apply.Applier {
	return apply.New(c, live, NewConverter(c.Scheme()), contract.Freehold())
}

// NewConverter has the schemas of the built-in kinds, of Freehold's and of HTTPRoutes.
func NewConverter(scheme *runtime.Scheme) *apply.Converter {
	return apply.NewConverter(scheme, map[string]managedfields.TypeConverter{
		v1alpha1.SchemeGroupVersion.Group: applyconfig.NewTypeConverter(scheme),
		contract.HTTPRoute.Group:          routes.NewTypeConverter(),
	})
}
