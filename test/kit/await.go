package kit

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// errAbsent is what an object that is not there answers to every question.
var errAbsent = errors.New("it does not exist")

// Await fills object with each state that the API server reports until the
// question is answered by nil. The error of until says what is still missing;
// the last one is in the failure, with the object, its owners, its events and
// the pods of the namespace.
func (s *Stage) Await(object client.Object, question string, until func() error) {
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
func (s *Stage) AwaitGone(object client.Object) {
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

// AwaitAll fills list, with what opts select in the stage's namespace, each
// time one of the objects changes, until the question is answered by nil.
func (s *Stage) AwaitAll(list client.ObjectList, question string, until func() error, opts ...client.ListOption) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, Patience)
	defer cancel()
	opts = append([]client.ListOption{client.InNamespace(s.Namespace)}, opts...)
	for {
		s.Must(s.Client.List(s.Ctx, list, opts...), "listing")
		last := until()
		if last == nil {
			return
		}
		// The watch begins where the list ended; its first event means that
		// the list is old.
		from := list.GetResourceVersion()
		watched := list.DeepCopyObject().(client.ObjectList)
		watcher, err := s.Client.Watch(ctx, watched, append(opts, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from}})...)
		s.Must(err, "watching")
		select {
		case <-watcher.ResultChan():
			watcher.Stop()
		case <-ctx.Done():
			watcher.Stop()
			s.Fatalf("waiting until %s: %v: %v\n%s", question, ctx.Err(), last, s.Scene())
		}
	}
}

// follow calls each with every state of the object, nil for its absence, until
// each is true. It returns an error after Patience, or if the API server
// cannot be watched.
func (s *Stage) follow(object client.Object, each func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeout(s.Ctx, Patience)
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
	return fmt.Errorf("not within %s", Patience)
}

func (s *Stage) followOnce(ctx context.Context, object client.Object, each func(*unstructured.Unstructured) bool) (bool, error) {
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

func (s *Stage) listOf(object client.Object) (*unstructured.UnstructuredList, error) {
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
