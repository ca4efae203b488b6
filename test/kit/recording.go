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

// State is one state of an object as a watch reported it. The state of a deletion holds the last state.
type State struct {
	Deleted bool
	Object  *unstructured.Unstructured
}

// Recording records every state of one object, or of all objects of one kind in a
// namespace, from the moment it is started: a watch leaves none out.
type Recording struct {
	env   *Env
	title string
	list  *unstructured.UnstructuredList
	shown []client.ListOption

	mu     sync.Mutex
	states []State
	added  chan struct{}
}

// Record starts to record an object, which need not exist yet.
func (s *Env) Record(object client.Object) *Recording {
	s.Helper()
	s.place(object)
	return s.record(object, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{metav1.ObjectNameField: object.GetName()})
}

// RecordAll starts to record all objects of the kind of object in the test's namespace.
func (s *Env) RecordAll(object client.Object) *Recording {
	s.Helper()
	return s.record(object, client.InNamespace(s.Namespace))
}

func (s *Env) record(object client.Object, shown ...client.ListOption) *Recording {
	s.Helper()
	list, err := s.listOf(object)
	s.Must(err, "recording")
	recording := &Recording{env: s, title: s.Title(object), list: list, shown: shown, added: make(chan struct{}, 1)}
	s.Must(s.Client.List(s.Ctx, list, shown...), "recording "+recording.title)
	for i := range list.Items {
		recording.states = append(recording.states, State{Object: &list.Items[i]})
	}
	ctx, cancel := context.WithCancel(s.Ctx)
	watcher, err := s.Client.Watch(ctx, list.DeepCopy(), append(slices.Clone(shown),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})...)
	if err != nil {
		cancel()
	}
	s.Must(err, "recording "+recording.title)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			recording.add(event)
		}
	}()
	s.Cleanup(func() { cancel(); watcher.Stop(); <-done })
	return recording
}

func (f *Recording) add(event watch.Event) {
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	f.mu.Lock()
	f.states = append(f.states, State{Deleted: event.Type == watch.Deleted, Object: object.DeepCopy()})
	f.mu.Unlock()
	select {
	case f.added <- struct{}{}:
	default:
	}
}

// States returns what was recorded, in order, up to and including the present state of what is recorded.
func (f *Recording) States() []State {
	f.env.Helper()
	f.env.Must(f.env.Client.List(f.env.Ctx, f.list, f.shown...), "recording "+f.title)
	now := map[types.UID]string{}
	for i := range f.list.Items {
		now[f.list.Items[i].GetUID()] = f.list.Items[i].GetResourceVersion()
	}
	expired := time.After(f.env.Patience)
	for {
		f.mu.Lock()
		states := slices.Clone(f.states)
		f.mu.Unlock()
		if reaches(states, now) {
			return states
		}
		select {
		case <-f.added:
		case <-expired:
			f.env.Fatalf("recording %s: its present state was not reported within %s", f.title, f.env.Patience)
		}
	}
}

// reaches reports whether states show every object in the version that now has, and the end of every other.
func reaches(states []State, now map[types.UID]string) bool {
	seen, ended := map[string]bool{}, map[types.UID]bool{}
	for _, state := range states {
		seen[state.Object.GetResourceVersion()] = true
		ended[state.Object.GetUID()] = ended[state.Object.GetUID()] || state.Deleted
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

// Check fails the test at the first state for which wrong returns an error, and shows the states that led there.
func (f *Recording) Check(wrong func(State) error) {
	f.env.Helper()
	states := f.States()
	for i, state := range states {
		if err := wrong(state); err != nil {
			f.env.Fatalf("%s, state %d of %d: %v\n%s", f.title, i+1, len(states), err, history(states[max(0, i-3):i+1]))
		}
	}
	if len(states) == 0 {
		f.env.Fatalf("%s: nothing was recorded", f.title)
	}
}

// Before reports whether a was written before b, or is b. Versions are those of
// one store, so objects of different kinds compare too.
func Before(a, b State) bool {
	order, err := resourceversion.CompareResourceVersion(a.Object.GetResourceVersion(), b.Object.GetResourceVersion())
	return err == nil && order <= 0
}

func history(states []State) string {
	var text strings.Builder
	for _, state := range states {
		fmt.Fprintf(&text, "--- at resourceVersion %s\n%s", state.Object.GetResourceVersion(), plain(state.Object))
	}
	return text.String()
}

// Kstatus is the verdict of kstatus, the library by which Flux, Argo CD and kubectl wait, with its reason.
func Kstatus(object *unstructured.Unstructured) (status.Status, string, error) {
	result, err := status.Compute(object)
	if err != nil {
		return "", "", fmt.Errorf("computing kstatus: %w", err)
	}
	return result.Status, result.Message, nil
}
