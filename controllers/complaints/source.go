package complaints

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/workload"
)

// selector excludes Events whose content the pod's status has as well.
func selector() fields.Selector {
	terms := []fields.Selector{
		fields.OneTermEqualSelector("type", corev1.EventTypeWarning),
		fields.OneTermEqualSelector("involvedObject.kind", "Pod"),
	}
	for _, reason := range []string{"BackOff", "Failed", "InspectFailed", "ErrImageNeverPull", "FailedScheduling"} {
		terms = append(terms, fields.OneTermNotEqualSelector("reason", reason))
	}
	return fields.AndSelectors(terms...)
}

// Watch updates the Store from the Events of these namespaces, or of all, until ctx is done. It retries with c until
// the API server answers.
func (s *Store) Watch(ctx context.Context, c client.WithWatch, namespaces []string) error {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var watches sync.WaitGroup
	for _, namespace := range namespaces {
		watches.Go(func() {
			toolscache.NewReflectorWithOptions(events(c, namespace), &corev1.Event{}, scope{s, namespace},
				toolscache.ReflectorOptions{Name: "complaints"}).RunWithContext(ctx)
		})
	}
	watches.Wait()
	return nil
}

// OfPods adds why kubelet ended a pod of a cache, from the pod's status: kubelet drops Events about a pod that had
// many, and the status says the same until the pod is deleted, as a StatefulSet's is at once.
func (s *Store) OfPods() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    s.ended,
		UpdateFunc: func(_, pod any) { s.ended(pod) },
		DeleteFunc: func(obj any) {
			if last, unknown := obj.(toolscache.DeletedFinalStateUnknown); unknown {
				obj = last.Obj
			}
			s.ended(obj)
		},
	}
}

// paged lists in pages, each processed before the next one, so that foreign Events take no memory.
type paged struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported keeps a reflector from gathering all Events of a watch.
func (paged) IsWatchListSemanticsUnSupported() bool { return true }

func events(c client.WithWatch, namespace string) paged {
	return paged{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.EventList{}
			err := c.List(ctx, list, &client.ListOptions{
				Namespace: namespace, FieldSelector: selector(), Limit: options.Limit,
				Continue: options.Continue, Raw: &options,
			})
			if err != nil {
				return nil, fmt.Errorf("listing events of pods: %w", err)
			}
			var ours []corev1.Event // in a list of its own, since a part keeps the whole
			for i := range list.Items {
				if key, _ := workload.OfPod(list.Items[i].InvolvedObject.Name); key != "" {
					ours = append(ours, list.Items[i])
				}
			}
			list.Items = ours
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			w, err := c.Watch(ctx, &corev1.EventList{},
				&client.ListOptions{Namespace: namespace, FieldSelector: selector(), Raw: &options})
			if err != nil {
				return nil, fmt.Errorf("watching events of pods: %w", err)
			}
			return w, nil
		},
	}}
}

// scope adapts the Store to a reflector of one namespace's Events, or of all.
type scope struct {
	store     *Store
	namespace string
}

// Add keeps an Event.
func (s scope) Add(obj any) error {
	if e, ok := obj.(*corev1.Event); ok {
		s.store.add(e)
	}
	return nil
}

// Update keeps a repeated Event.
func (s scope) Update(obj any) error { return s.Add(obj) }

// Delete forgets what only this Event said.
func (s scope) Delete(obj any) error {
	if e, ok := obj.(*corev1.Event); ok {
		s.store.forget(e.Namespace, func(event string) bool { return event == e.Name })
	}
	return nil
}

// Replace keeps these Events, and forgets all others.
func (s scope) Replace(objects []any, _ string) error {
	list := make([]*corev1.Event, 0, len(objects))
	there := map[[2]string]bool{}
	for _, obj := range objects {
		if e, ok := obj.(*corev1.Event); ok {
			list, there[[2]string{e.Namespace, e.Name}] = append(list, e), true
		}
	}
	for _, namespace := range s.store.all() {
		if s.namespace == metav1.NamespaceAll || s.namespace == namespace {
			s.store.forget(namespace, func(event string) bool { return !there[[2]string{namespace, event}] })
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Event) int {
		_, ofA := times(a)
		_, ofB := times(b)
		return ofA.Compare(ofB)
	})
	for _, e := range list {
		s.store.add(e)
	}
	return nil
}

// Resync does nothing.
func (s scope) Resync() error { return nil }

// container is the container in a reference to a part of a pod, such as spec.containers{server}; empty for none.
func container(fieldPath string) string {
	_, name, _ := strings.Cut(fieldPath, "{")
	return strings.TrimSuffix(name, "}")
}
