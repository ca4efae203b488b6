package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
)

// Frame is one state of an object as a watch reported it. The frame of a
// deletion holds the last state.
type Frame struct {
	Deleted bool
	Object  *unstructured.Unstructured
}

// Film records every state of one object from the moment it is started: a
// watch leaves none out.
type Film struct {
	stage  *Stage
	object client.Object
	title  string

	mu     sync.Mutex
	frames []Frame
	added  chan struct{}
}

// Film starts to record an object, which need not exist yet.
func (s *Stage) Film(object client.Object) *Film {
	s.Helper()
	s.place(object)
	list, err := s.listOf(object)
	s.Must(err, "filming")
	one := []client.ListOption{
		client.InNamespace(object.GetNamespace()), client.MatchingFields{metav1.ObjectNameField: object.GetName()},
	}
	s.Must(s.Client.List(s.Ctx, list, one...), "filming "+s.Title(object))
	film := &Film{stage: s, object: object.DeepCopyObject().(client.Object), title: s.Title(object), added: make(chan struct{}, 1)}
	for i := range list.Items {
		film.frames = append(film.frames, Frame{Object: &list.Items[i]})
	}
	ctx, cancel := context.WithCancel(s.Ctx)
	watcher, err := s.Client.Watch(ctx, list, append(one,
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})...)
	if err != nil {
		cancel()
	}
	s.Must(err, "filming "+film.title)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			film.add(event)
		}
	}()
	s.Cleanup(func() { cancel(); watcher.Stop(); <-done })
	return film
}

func (f *Film) add(event watch.Event) {
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	f.mu.Lock()
	f.frames = append(f.frames, Frame{Deleted: event.Type == watch.Deleted, Object: object.DeepCopy()})
	f.mu.Unlock()
	select {
	case f.added <- struct{}{}:
	default:
	}
}

// Frames returns what was recorded up to and including the present state of
// the object.
func (f *Film) Frames() []Frame {
	f.stage.Helper()
	exists := f.stage.Exists(f.object)
	version := f.object.GetResourceVersion()
	expired := time.After(Patience)
	for {
		f.mu.Lock()
		frames := slices.Clone(f.frames)
		f.mu.Unlock()
		if slices.ContainsFunc(frames, func(frame Frame) bool {
			return exists && frame.Object.GetResourceVersion() == version || !exists && frame.Deleted
		}) || !exists && len(frames) == 0 {
			return frames
		}
		select {
		case <-f.added:
		case <-expired:
			f.stage.Fatalf("filming %s: its present state was not reported within %s", f.title, Patience)
		}
	}
}

// Check fails the test at the first frame for which wrong returns an error,
// and shows the frames that led there.
func (f *Film) Check(wrong func(Frame) error) {
	f.stage.Helper()
	frames := f.Frames()
	for i, frame := range frames {
		if err := wrong(frame); err != nil {
			f.stage.Fatalf("%s, state %d of %d: %v\n%s", f.title, i+1, len(frames), err, reel(frames[max(0, i-3):i+1]))
		}
	}
	if len(frames) == 0 {
		f.stage.Fatalf("%s: nothing was recorded", f.title)
	}
}

func reel(frames []Frame) string {
	var text strings.Builder
	for _, frame := range frames {
		fmt.Fprintf(&text, "--- at resourceVersion %s\n%s", frame.Object.GetResourceVersion(), plain(frame.Object))
	}
	return text.String()
}

// Judge is the verdict of kstatus, the library by which Flux, Argo CD and
// kubectl wait, with its reason.
func Judge(object *unstructured.Unstructured) (status.Status, string, error) {
	result, err := status.Compute(object)
	if err != nil {
		return "", "", fmt.Errorf("computing kstatus: %w", err)
	}
	return result.Status, result.Message, nil
}
