package controllers

import (
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/mcpserver"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Options are the settings of the operator.
type Options struct {
	// Workload goes into every server's pods.
	Workload podtemplate.Release
	// IdentityNamespace has the ServiceAccounts that the controllers write as; empty if the process writes as itself.
	IdentityNamespace string
	// Concurrency is how many objects of each kind are reconciled at once; DefaultConcurrency if zero.
	Concurrency int
	// ConfigRolloutShare is the percentage of referring servers that take a changed configuration at a time;
	// rollout.DefaultPercent if zero.
	ConfigRolloutShare int
	// Namespaces are those that the cache holds, and whose pods' Events are read; all if empty.
	Namespaces []string
	// AskProxy reads what a proxy pod tells of where its calls go; by HTTP if nil.
	AskProxy snapshot.AskProxy
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// SkipNameValidation lets a process run the controllers twice, as tests do.
	SkipNameValidation bool
}

// The defaults: objects of each kind reconciled at once, requests a second to the API server, and requests at once.
// The first is the effective limit, since a pass sends one request at a time; the others only bound a defect
// (docs/maintainers/performance.md).
const (
	DefaultConcurrency        = 8
	DefaultQPS                = 1000
	DefaultBurst              = 1000
	DefaultConfigRolloutShare = rollout.DefaultPercent
)

func (o Options) controller() controller.Options {
	concurrency := o.Concurrency
	if concurrency == 0 {
		concurrency = DefaultConcurrency
	}
	return controller.Options{
		MaxConcurrentReconciles: concurrency,
		SkipNameValidation:      &o.SkipNameValidation,
		// The default's longest wait is a quarter of an hour, long after an outage of the API server has ended.
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		NewQueue:    newQueue(concurrency),
	}
}

// A failed pass is tried again after firstRetry, then after twice as long each time, up to lastRetry.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// NewScheme has only the kinds that Freehold reads and writes: all of Kubernetes' take memory.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, contract.HTTPRoute.GroupVersion()) // what requests have besides the object
	kinds := runtime.SchemeBuilder{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme,
		v1alpha1.AddToScheme,
	}
	return scheme, kinds.AddToScheme(scheme)
}

// CacheOptions describes a cache that keeps only our objects: children and pods by label, in these namespaces or all.
// It never keeps a Secret. Of our kinds it keeps the labels in handedDown. config is for its requests.
func CacheOptions(config *rest.Config, namespaces []string, handedDown ...string) (cache.Options, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return watchTrimmer{next, handedDown} })
	reads, err := rest.HTTPClientFor(config)
	if err != nil {
		return cache.Options{}, fmt.Errorf("building the client of the cache: %w", err)
	}
	ours, err := labels.NewRequirement(workload.LabelServer, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	// The StatefulSet controller labels its own revisions as the backend's pods.
	history, err := labels.NewRequirement(workload.LabelComponent, selection.Equals, []string{workload.ComponentRunner})
	if err != nil {
		return cache.Options{}, err
	}
	selector := labels.NewSelector().Add(*ours)
	shared := newInterner(handedDown...)
	options := cache.Options{
		// A kind that nobody registered must not start an informer by accident.
		ReaderFailOnMissingInformer: true,
		ByObject:                    map[client.Object]cache.ByObject{},
		HTTPClient:                  reads,
	}
	for _, kind := range ownKinds {
		options.ByObject[kind] = cache.ByObject{Transform: shared.trim}
	}
	for _, kind := range mcpserver.Watched() {
		options.ByObject[kind] = cache.ByObject{Label: selector, Transform: shared.trim}
		if kind.GetObjectKind().GroupVersionKind() == contract.ControllerRevision.GroupVersionKind {
			options.ByObject[kind] = cache.ByObject{Label: selector.Add(*history), Transform: shared.trim}
		}
	}
	options.DefaultNamespaces = defaultNamespaces(namespaces)
	return options, nil
}

// defaultNamespaces are nil for all.
func defaultNamespaces(namespaces []string) map[string]cache.Config {
	var kept map[string]cache.Config
	for _, namespace := range namespaces {
		if kept == nil {
			kept = map[string]cache.Config{}
		}
		kept[namespace] = cache.Config{}
	}
	return kept
}
