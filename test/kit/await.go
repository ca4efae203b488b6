package kit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// errAbsent is what an object that is not there answers to every question.
var errAbsent = errors.New("it does not exist")

// Await fills object with each state that the API server reports until the question is answered by nil. The error of
// until says what is still missing; the last one is in the failure, with the object, its owners, its events and the
// pods of the namespace.
func (s *Env) Await(object client.Object, question string, until func() error) {
	s.Helper()
	s.place(object)
	last := errAbsent
	err := s.follow(object, func(live *unstructured.Unstructured) bool {
		if live == nil {
			last = errAbsent
			return false
		}
		if last = convert(live, object); last == nil {
			last = until()
		}
		return last == nil
	})
	if err != nil {
		s.Fatalf("waiting until %s: %v: %v\n%s", question, err, last, s.Describe(object))
	}
}

// AwaitGone waits until the object is not there, or is another one of the name.
func (s *Env) AwaitGone(object client.Object) {
	s.Helper()
	s.place(object)
	uid := object.GetUID()
	err := s.follow(object, func(live *unstructured.Unstructured) bool {
		return live == nil || (uid != "" && live.GetUID() != uid)
	})
	if err != nil {
		s.Fatalf("waiting until %s is gone: %v\n%s", s.Title(object), err, s.Describe(object))
	}
}

// isNoAnswer reports whether a request ended without an answer of the API server: under load its side of a connection
// resets streams (https://pkg.go.dev/golang.org/x/net/http2#Server).
func isNoAnswer(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer)
}

// AwaitAll fills list, with what opts select in the test's namespace, each
// time one of the objects changes, until the question is answered by nil.
func (s *Env) AwaitAll(list client.ObjectList, question string, until func() error, opts ...client.ListOption) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, s.Patience)
	defer cancel()
	opts = append([]client.ListOption{client.InNamespace(s.Namespace)}, opts...)
	for {
		s.Must(retry.OnError(retry.DefaultBackoff, isNoAnswer, func() error {
			return s.Client.List(s.Ctx, list, opts...)
		}), "listing")
		last := until()
		if last == nil {
			return
		}
		if err := s.awaitChange(ctx, list, opts); err != nil {
			s.Fatalf("waiting until %s: %v: %v\n%s", question, err, last, s.Surroundings())
		}
	}
}

// awaitChange returns when something happened to what was listed: the watch
// begins where the list ended, so its first event means that the list is old.
func (s *Env) awaitChange(ctx context.Context, list client.ObjectList, opts []client.ListOption) error {
	watched, ok := list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return fmt.Errorf("%T is no list", list)
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	watcher, err := s.Client.Watch(ctx, watched, append(slices.Clone(opts), from)...)
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer watcher.Stop()
	select {
	case <-watcher.ResultChan():
	case <-ctx.Done():
		return fmt.Errorf("not within %s", s.Patience)
	}
	// What comes in one burst is looked at once.
	burst := time.NewTimer(20 * time.Millisecond)
	defer burst.Stop()
	for {
		select {
		case _, open := <-watcher.ResultChan():
			if !open {
				return nil
			}
		case <-burst.C:
			return nil
		}
	}
}

// follow calls each with every state of the object, nil for its absence, until each is true. It returns an error after
// the environment's Patience, or if the API server cannot be watched.
func (s *Env) follow(object client.Object, each func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeout(s.Ctx, s.Patience)
	defer cancel()
	for ctx.Err() == nil {
		done, err := s.followOnce(ctx, object, each)
		if done {
			return nil
		}
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) && ctx.Err() == nil {
			return err
		}
	}
	return fmt.Errorf("not within %s", s.Patience)
}

func (s *Env) followOnce(
	ctx context.Context, object client.Object, each func(*unstructured.Unstructured) bool,
) (bool, error) {
	list, err := s.listOf(object)
	if err != nil {
		return false, err
	}
	one := []client.ListOption{
		client.InNamespace(object.GetNamespace()), client.MatchingFields{metav1.ObjectNameField: object.GetName()},
	}
	if err := s.Client.List(ctx, list, one...); err != nil {
		return false, fmt.Errorf("listing %s: %w", list.GetKind(), err)
	}
	var first *unstructured.Unstructured
	if len(list.Items) > 0 {
		first = &list.Items[0]
	}
	if each(first) {
		return true, nil
	}
	watcher, err := s.Client.Watch(ctx, list, append(one,
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})...)
	if err != nil {
		return false, fmt.Errorf("watching %s: %w", list.GetKind(), err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		live, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case event.Type == watch.Error:
			return false, apierrors.FromObject(event.Object)
		case !ok:
			continue
		case event.Type == watch.Deleted:
			live = nil
		}
		if each(live) {
			return true, nil
		}
	}
	return false, nil
}

func (s *Env) listOf(object client.Object) (*unstructured.UnstructuredList, error) {
	gvk, err := apiutil.GVKForObject(object, s.Scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of an object: %w", err)
	}
	gvk.Kind += "List"
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	return list, nil
}

func empty(object client.Object) {
	value := reflect.ValueOf(object).Elem()
	value.Set(reflect.Zero(value.Type()))
}
