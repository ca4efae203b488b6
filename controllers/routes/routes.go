// Package routes reads the HTTPRoutes of ours, of the Gateway API, which a cluster may serve, or come to serve. Start
// with Source.
package routes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
)

// Recheck is how often a process asks at most whether the cluster serves HTTPRoutes by now, and only while one is
// wanted. A watch of CustomResourceDefinitions would need a right in the whole cluster.
const Recheck = time.Minute

// syncs is how long a pass waits for the first list of HTTPRoutes.
const syncs = 10 * time.Second

// Source watches HTTPRoutes once the cluster serves them. A nil Source is one of a cluster that does not.
type Source struct {
	mapper meta.RESTMapper
	build  func() (cache.Cache, error)
	now    func() time.Time

	// life is that of the process, nil before Start.
	mu     sync.Mutex
	life   context.Context //nolint:containedctx // the watch outlives the pass that begins it
	began  chan struct{}
	asked  time.Time
	served cache.Cache
	synced bool
	heard  []func(namespace string, labels map[string]string)
}

// New returns a Source. build makes the cache of HTTPRoutes, of a cluster that serves them.
func New(mapper meta.RESTMapper, build func() (cache.Cache, error), now func() time.Time) *Source {
	return &Source{mapper: mapper, build: build, now: now, began: make(chan struct{})}
}

// Object is an empty HTTPRoute.
func Object() *unstructured.Unstructured {
	route := &unstructured.Unstructured{}
	route.SetGroupVersionKind(contract.HTTPRoute.GroupVersionKind)
	return route
}

// OnNews registers what hears that an HTTPRoute has changed: in which namespace, and its labels.
func (s *Source) OnNews(heard func(namespace string, labels map[string]string)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, heard)
}

// Start lets the Source watch until ctx is done.
func (s *Source) Start(ctx context.Context) error {
	s.mu.Lock()
	s.life = ctx
	s.mu.Unlock()
	close(s.began)
	<-ctx.Done()
	return nil
}

// Get reads an HTTPRoute, nil for none, and reports whether the cluster serves the kind. Where it did not, it is asked
// again if the route is wanted.
func (s *Source) Get(
	ctx context.Context, key client.ObjectKey, wanted bool,
) (route *unstructured.Unstructured, served bool, err error) {
	if s == nil {
		return nil, false, nil
	}
	reader, err := s.reader(ctx, wanted)
	if err != nil || reader == nil {
		return nil, false, err
	}
	route = Object()
	switch err := reader.Get(ctx, key, route); {
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case err != nil:
		return nil, true, fmt.Errorf("reading HTTPRoute %s: %w", key, err)
	}
	return route, true, nil
}

// reader is nil where the cluster serves no HTTPRoutes.
func (s *Source) reader(ctx context.Context, wanted bool) (client.Reader, error) {
	select {
	case <-s.began:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced {
		return s.served, nil
	}
	now := s.now()
	switch {
	case s.served == nil && !s.asked.IsZero() && (!wanted || now.Sub(s.asked) < Recheck):
		return nil, nil
	case s.served == nil:
		of := contract.HTTPRoute
		switch _, err := s.mapper.RESTMapping(of.GroupKind(), of.Version); {
		case meta.IsNoMatchError(err):
			s.asked = now
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("asking whether the cluster serves HTTPRoutes: %w", err)
		}
		if err := s.watch(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, syncs)
	defer cancel()
	if s.synced = s.served.WaitForCacheSync(ctx); !s.synced {
		return nil, errors.New("listing HTTPRoutes takes too long")
	}
	return s.served, nil
}

func (s *Source) watch(ctx context.Context) error {
	served, err := s.build()
	if err != nil {
		return fmt.Errorf("building the cache of HTTPRoutes: %w", err)
	}
	informer, err := served.GetInformer(ctx, Object(), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching HTTPRoutes: %w", err)
	}
	tell := func(obj any) {
		if last, unknown := obj.(toolscache.DeletedFinalStateUnknown); unknown {
			obj = last.Obj
		}
		s.mu.Lock()
		all := s.heard
		s.mu.Unlock()
		if route, is := obj.(client.Object); is {
			for _, heard := range all {
				heard(route.GetNamespace(), route.GetLabels())
			}
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(before, after any) { tell(before); tell(after) },
	})
	if err != nil {
		return fmt.Errorf("watching HTTPRoutes: %w", err)
	}
	go served.Start(s.life) //nolint:errcheck // it ends with the process
	s.served = served
	return nil
}
