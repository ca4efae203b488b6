package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/test/kit"
)

// observer sees every state of every server and of what carries a revision, and holds each against the one before.
// While the API server is away it sees nothing, and goes on with what stands then.
type observer struct {
	mu     sync.Mutex
	last   map[types.UID]state
	gone   map[types.UID]bool
	made   map[string]map[types.UID]bool
	breaks map[string][]string
}

// state is what must not be lost of an object.
type state struct {
	revision revision.Revision
	foreign  []string
}

func watchEverything(ctx context.Context, p *kit.Plane) *observer {
	w := &observer{
		last: map[types.UID]state{}, gone: map[types.UID]bool{}, made: map[string]map[types.UID]bool{},
		breaks: map[string][]string{},
	}
	all, err := cache.New(p.Config, cache.Options{Scheme: p.Scheme, Mapper: p.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	for _, kind := range []client.Object{
		&v1alpha1.MCPServer{}, &appsv1.Deployment{}, &appsv1.StatefulSet{},
		&corev1.Service{},
	} {
		informer, err := all.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.sees(o, false) },
			UpdateFunc: func(_, o any) { w.sees(o, false) },
			DeleteFunc: func(o any) { w.sees(o, true) },
		})
		Expect(err).NotTo(HaveOccurred())
	}
	go func() { _ = all.Start(ctx) }() // it ends with ctx
	Expect(all.WaitForCacheSync(ctx)).To(BeTrue())
	return w
}

func (w *observer) sees(o any, deleted bool) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	object, ok := o.(client.Object)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[object.GetUID()] = deleted
	name := fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object))
	w.count(object, name)
	before, known := w.last[object.GetUID()]
	now := stateOf(object)
	w.last[object.GetUID()] = now
	if !known {
		return
	}
	for _, lost := range before.foreign {
		if !slices.Contains(now.foreign, lost) {
			w.violation(object, "%s lost %s", name, lost)
		}
	}
	switch {
	case now.revision.Generation < before.revision.Generation:
		w.violation(object, "%s went back from generation %d to %d", name, before.revision.Generation,
			now.revision.Generation)
	case now.revision.Generation == before.revision.Generation && now.revision != before.revision:
		w.violation(object, "%s has other content under generation %d", name, now.revision.Generation)
	// Of numbers further apart there was content between, which nobody saw while the API server was away.
	case now.revision.Generation == before.revision.Generation+1 && now.revision.Hash == before.revision.Hash:
		w.violation(object, "%s has the same content under generations %d and %d", name, before.revision.Generation,
			now.revision.Generation)
	}
}

// count holds that one server has one object of a name.
func (w *observer) count(object client.Object, name string) {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return
	}
	key := name + " of " + string(owner.UID)
	if w.made[key] == nil {
		w.made[key] = map[types.UID]bool{}
	}
	w.made[key][object.GetUID()] = true
	if len(w.made[key]) == 2 {
		w.violation(object, "%s was made twice", name)
	}
}

func (w *observer) violation(object client.Object, format string, args ...any) {
	w.breaks[object.GetNamespace()] = append(w.breaks[object.GetNamespace()], fmt.Sprintf(format, args...))
}

func stateOf(object client.Object) state {
	now := state{}
	if object.GetAnnotations()[note] != "" {
		now.foreign = append(now.foreign, "the annotation "+note)
	}
	if server, ok := object.(*v1alpha1.MCPServer); ok {
		if s := server.Status.Workload; s != nil {
			now.revision = revision.Revision{Generation: s.Generation, Hash: s.Hash}
		}
		if meta.IsStatusConditionTrue(server.Status.Conditions, scanned) {
			now.foreign = append(now.foreign, "the condition "+scanned)
		}
		if slices.Contains(server.Finalizers, hold) || server.DeletionTimestamp != nil {
			now.foreign = append(now.foreign, "the finalizer "+hold)
		}
		return now
	}
	rev, err := revision.Of(object.GetAnnotations())
	if err == nil {
		now.revision = rev
	}
	return now
}

// saw is what was wrong in a namespace until an object went.
func (w *observer) saw(namespace string, last types.UID) []string {
	Eventually(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.gone[last]
	}).Should(BeTrue(), "the observer has not seen the end of %s", last)
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.breaks[namespace])
}
