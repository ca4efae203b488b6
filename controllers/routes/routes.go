// Package routes reads the HTTPRoutes of ours, of the Gateway API, which a cluster may serve, or come to serve. Start
// with Source. It keeps no pass waiting: what it does not know yet wakes who asked.
package routes

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/apis/contract"
)

// Recheck is how often a process asks at most whether the cluster serves HTTPRoutes by now, and only while one is
// wanted. A watch of CustomResourceDefinitions would need a right in the whole cluster.
const Recheck = time.Minute

// firstList is how long the first list of HTTPRoutes may take before they count as unread.
const firstList = 10 * time.Second

// State is what is known of a cluster's HTTPRoutes.
type State int

const (
	// NotServed means that the cluster does not have the kind, or that nobody has wanted a route.
	NotServed State = iota
	// Pending means that the cluster is being asked.
	Pending
	// Unread means that they cannot be read, for a reason that is logged.
	Unread
	// Forbidden means that the operator lacks the right to read them.
	Forbidden
	// Served means that they are watched.
	Served
)

// Build makes the cache of HTTPRoutes, of a cluster that serves them. It calls failed with each error of a list or a
// watch.
type Build func(failed toolscache.WatchErrorHandlerWithContext) (cache.Cache, error)

// Source watches HTTPRoutes from when one is wanted, in a cluster that serves them. A nil Source serves none.
type Source struct {
	mapper meta.RESTMapper
	build  Build
	now    func() time.Time
	// firstList is the constant, but in tests.
	firstList time.Duration

	mu sync.Mutex
	// life is that of the process, nil before Start.
	life  context.Context //nolint:containedctx // the watch outlives the pass that begins it
	state State
	asked time.Time
	// logged is the error that was logged last.
	logged string
	// served is nil before the watch.
	served  cache.Cache
	waiting map[[2]string]bool // by namespace and owner
	heard   []func(namespace, owner string)
	// ownerOf is the owner of an object by its labels.
	ownerOf func(labels map[string]string) string
}

// New returns a Source.
func New(mapper meta.RESTMapper, build Build, ownerOf func(labels map[string]string) string, now func() time.Time,
) *Source {
	return &Source{
		mapper: mapper, build: build, ownerOf: ownerOf, now: now, firstList: firstList, waiting: map[[2]string]bool{},
	}
}

// Object is an empty HTTPRoute.
func Object() *unstructured.Unstructured {
	route := &unstructured.Unstructured{}
	route.SetGroupVersionKind(contract.HTTPRoute.GroupVersionKind)
	return route
}

// OnNews registers what hears that the HTTPRoute of an owner has changed, or that it can be asked for now.
func (s *Source) OnNews(heard func(namespace, owner string)) {
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
	s.tellWaiting()
	<-ctx.Done()
	return nil
}

// Get reads the HTTPRoute of an owner, nil for none. It asks the cluster only if the route is wanted.
func (s *Source) Get(
	ctx context.Context, key client.ObjectKey, owner string, wanted bool,
) (*unstructured.Unstructured, State) {
	if s == nil {
		return nil, NotServed
	}
	reader, state := s.look(key.Namespace, owner, wanted)
	if state != Served {
		return nil, state
	}
	route := Object()
	switch err := reader.Get(ctx, key, route); {
	case client.IgnoreNotFound(err) != nil:
		return nil, s.failed(err)
	case err != nil:
		return nil, Served
	}
	return route, Served
}

// look begins to ask where that is due.
func (s *Source) look(namespace, owner string, wanted bool) (client.Reader, State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !wanted || s.state == Served {
		return s.served, s.state
	}
	now := s.now()
	switch {
	case s.life == nil: // Start tells
		s.waiting[[2]string{namespace, owner}] = true
		return nil, Pending
	case s.served == nil && s.state != Pending && (s.asked.IsZero() || now.Sub(s.asked) >= Recheck):
		s.state, s.asked = Pending, now
		go s.ask(s.life)
	}
	s.waiting[[2]string{namespace, owner}] = true
	return nil, s.state
}

// ask finds out whether the cluster serves HTTPRoutes, and watches them if it does.
func (s *Source) ask(life context.Context) {
	of := contract.HTTPRoute
	_, err := s.mapper.RESTMapping(of.GroupKind(), of.Version)
	if meta.IsNoMatchError(err) {
		s.is(NotServed)
		return
	}
	var served cache.Cache
	if err == nil {
		served, err = s.watch(life)
	}
	if err != nil {
		s.is(s.failed(err))
		return
	}
	first, cancel := context.WithTimeout(life, s.firstList)
	defer cancel()
	if !served.WaitForCacheSync(first) {
		s.isUnlisted(Unread)
	}
	if served.WaitForCacheSync(life) {
		s.works()
		s.is(Served)
	}
}

// failed logs why HTTPRoutes cannot be read, once until that changes, and returns what it means.
func (s *Source) failed(err error) State {
	s.mu.Lock()
	news := s.logged != err.Error()
	s.logged = err.Error()
	s.mu.Unlock()
	if news {
		log := logf.Log.WithName("routes")
		log.Error(err, "cannot read HTTPRoutes")
	}
	if apierrors.IsForbidden(err) {
		return Forbidden
	}
	return Unread
}

// works lets the error of before be logged if it comes again.
func (s *Source) works() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logged = ""
}

// unlisted hears why a list or a watch has failed. The reflector tries again.
func (s *Source) unlisted(_ context.Context, _ *toolscache.Reflector, err error) {
	if s.failed(err) == Forbidden {
		s.isUnlisted(Forbidden)
	}
}

// isUnlisted is is before the first list, of which Forbidden says more than Unread.
func (s *Source) isUnlisted(state State) {
	s.mu.Lock()
	known := s.state == Served || s.state == Forbidden
	s.mu.Unlock()
	if !known {
		s.is(state)
	}
}

func (s *Source) is(state State) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	s.tellWaiting()
}

func (s *Source) watch(life context.Context) (cache.Cache, error) {
	served, err := s.build(s.unlisted)
	if err != nil {
		return nil, fmt.Errorf("building the cache of HTTPRoutes: %w", err)
	}
	informer, err := served.GetInformer(life, Object(), cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching HTTPRoutes: %w", err)
	}
	tell := func(obj any) {
		if last, unknown := obj.(toolscache.DeletedFinalStateUnknown); unknown {
			obj = last.Obj
		}
		s.works()
		if route, is := obj.(client.Object); is {
			s.tell(route.GetNamespace(), s.ownerOf(route.GetLabels()))
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(before, after any) { tell(before); tell(after) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching HTTPRoutes: %w", err)
	}
	go served.Start(life) //nolint:errcheck // it ends with the process
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = served
	return served, nil
}

func (s *Source) tell(namespace, owner string) {
	s.mu.Lock()
	all := s.heard
	s.mu.Unlock()
	for _, heard := range all {
		heard(namespace, owner)
	}
}

func (s *Source) tellWaiting() {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = map[[2]string]bool{}
	s.mu.Unlock()
	for who := range waiting {
		s.tell(who[0], who[1])
	}
}
