package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Frame is one state of an object as a watch reported it. The frame of a
// deletion holds the last state.
type Frame struct {
	Deleted bool
	Object  *unstructured.Unstructured
}

// Film records every state of one object, or of all objects of one kind in a
// namespace, from the moment it is started: a watch leaves none out.
type Film struct {
	stage *Stage
	title string
	list  *unstructured.UnstructuredList
	shown []client.ListOption

	mu     sync.Mutex
	frames []Frame
	added  chan struct{}
}

// Film starts to record an object, which need not exist yet.
func (s *Stage) Film(object client.Object) *Film {
	s.Helper()
	s.place(object)
	return s.film(object, client.InNamespace(object.GetNamespace()), client.MatchingFields{metav1.ObjectNameField: object.GetName()})
}

// FilmAll starts to record all objects of the kind of object in the stage's
// namespace.
func (s *Stage) FilmAll(object client.Object) *Film {
	s.Helper()
	return s.film(object, client.InNamespace(s.Namespace))
}

func (s *Stage) film(object client.Object, shown ...client.ListOption) *Film {
	s.Helper()
	list, err := s.listOf(object)
	s.Must(err, "filming")
	film := &Film{stage: s, title: s.Title(object), list: list, shown: shown, added: make(chan struct{}, 1)}
	s.Must(s.Client.List(s.Ctx, list, shown...), "filming "+film.title)
	for i := range list.Items {
		film.frames = append(film.frames, Frame{Object: &list.Items[i]})
	}
	ctx, cancel := context.WithCancel(s.Ctx)
	watcher, err := s.Client.Watch(ctx, list.DeepCopy(), append(slices.Clone(shown),
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

// Frames returns what was recorded, in order, up to and including the present
// state of what is filmed.
func (f *Film) Frames() []Frame {
	f.stage.Helper()
	f.stage.Must(f.stage.Client.List(f.stage.Ctx, f.list, f.shown...), "filming "+f.title)
	now := map[types.UID]string{}
	for i := range f.list.Items {
		now[f.list.Items[i].GetUID()] = f.list.Items[i].GetResourceVersion()
	}
	expired := time.After(f.stage.Patience)
	for {
		f.mu.Lock()
		frames := slices.Clone(f.frames)
		f.mu.Unlock()
		if reaches(frames, now) {
			return frames
		}
		select {
		case <-f.added:
		case <-expired:
			f.stage.Fatalf("filming %s: its present state was not reported within %s", f.title, f.stage.Patience)
		}
	}
}

// reaches reports whether frames show every object in the version that now has,
// and the end of every other.
func reaches(frames []Frame, now map[types.UID]string) bool {
	seen, ended := map[string]bool{}, map[types.UID]bool{}
	for _, frame := range frames {
		seen[frame.Object.GetResourceVersion()] = true
		ended[frame.Object.GetUID()] = ended[frame.Object.GetUID()] || frame.Deleted
	}
	for uid, over := range ended {
		if _, lives := now[uid]; !lives && !over {
			return false
		}
	}
	for _, version := range now {
		if !seen[version] {
			return false
		}
	}
	return true
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

// Before reports whether a was written before b, or is b. Versions are those of
// one store, so objects of different kinds compare too.
func Before(a, b Frame) bool {
	order, err := resourceversion.CompareResourceVersion(a.Object.GetResourceVersion(), b.Object.GetResourceVersion())
	return err == nil && order <= 0
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
