package backendloop

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// stored are objects by name, and a reader of them. An error is what all reads meet.
type stored struct {
	mu     sync.Mutex
	server *v1alpha1.MCPServer
	sets   map[string]*appsv1.StatefulSet
	err    error
}

// Get implements client.Reader.
func (s *stored) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	absent := apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	switch obj := obj.(type) {
	case *v1alpha1.MCPServer:
		if s.server == nil {
			return absent
		}
		s.server.DeepCopyInto(obj)
	case *appsv1.StatefulSet:
		set, is := s.sets[key.Name]
		if s.err != nil {
			return s.err
		}
		if !is {
			return absent
		}
		set.DeepCopyInto(obj)
	}
	return nil
}

// change has later reads find something else.
func (s *stored) change(to func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to()
}

// List implements client.Reader.
func (*stored) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no")
}

// set is a StatefulSet of a server, with content of a generation.
func set(uid, hash, generation string) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{}
	s.OwnerReferences = []metav1.OwnerReference{{UID: "uid-1", Controller: new(true)}}
	if uid != "" {
		s.OwnerReferences[0].UID = "another"
	}
	s.Annotations = map[string]string{revision.AnnotationGeneration: generation, revision.AnnotationHash: "h" + hash}
	s.Spec.Template.Annotations = map[string]string{workload.AnnotationBackendHash: hash}
	return s
}

// following is a runner of content "mine", generation 7, and where it has told that calls go.
func following(s *stored) (l *Loop, told *[]string) {
	run := runconfig.RunConfig{
		Server:    runconfig.Server{Namespace: "team", Name: "echo", UID: "uid-1"},
		Workload:  runconfig.Workload{Generation: 7, Hash: "h"},
		Backend:   runconfig.Backend{Port: 8080, Path: "/mcp", Transport: "streamable-http"},
		Rendering: runconfig.Rendering{Backend: "mine"},
	}
	told = &[]string{}
	return &Loop{
		Runner: &backend.Runner{Run: run, Live: s}, Log: slog.New(slog.DiscardHandler),
		Observe: func(now backend.Standing) {
			switch {
			case now.Active != nil:
				*told = append(*told, now.Active.Hash)
			case now.Assumed != nil:
				*told = append(*told, "assumed "+now.Assumed.Hash)
			default:
				*told = append(*told, "")
			}
		},
	}, told
}

func server(active string) *v1alpha1.MCPServer {
	s := &v1alpha1.MCPServer{}
	s.UID = "uid-1"
	if active != "" {
		s.Status.Active = &v1alpha1.ActiveBackend{}
		s.Status.Active.Slot, s.Status.Active.Hash, s.Status.Active.Generation = 1, active, 1
	}
	return s
}

// Where calls go is told as soon as the server's watch shows it, though no pass is made and no slot is read.
func TestWhereCallsGoIsFollowedWithoutAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{server: server("a"), err: errors.New("not now")}
		l, told := following(s)
		ctx, cancel := context.WithCancel(t.Context())
		changed := make(chan struct{}, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.follow(ctx, s, changed)
		}()
		for _, active := range []string{"a", "b", ""} {
			s.change(func() { s.server = server(active) })
			ring([]chan struct{}{changed})
			synctest.Wait()
		}
		s.change(func() { s.server = nil }) // it is gone, and nothing is known
		ring([]chan struct{}{changed})
		synctest.Wait()
		if diff := cmp.Diff([]string{"a", "b", ""}, (*told)[len(*told)-3:]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		cancel()
		<-done
	})
}

// What is told first was read from the API server: a cache may begin with what was so before a switch.
func TestWhereCallsGoIsReadLiveFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, live := &stored{server: server("a")}, &stored{server: server("b")}
		l, told := following(live)
		ctx, cancel := context.WithCancel(t.Context())
		changed := make(chan struct{}, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.follow(ctx, old, changed)
		}()
		synctest.Wait()
		old.change(func() { old.server = server("c") })
		ring([]chan struct{}{changed})
		synctest.Wait()
		if diff := cmp.Diff([]string{"b", "c"}, *told); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		cancel()
		<-done
	})
}

// Of a server whose status does not say where calls go it is what stands, of two contents that of the lower generation.
func TestWhereCallsGoOfAServerWithoutAPointer(t *testing.T) {
	type sets = map[string]*appsv1.StatefulSet
	const slot1, slot2 = "echo-backend", "echo-slot2"
	for name, tc := range map[string]struct {
		sets sets
		want string
	}{
		"nothing stands":          {nil, "assumed mine"},
		"the first slot":          {sets{slot1: set("", "a", "3")}, "assumed mine"},
		"the second":              {sets{slot2: set("", "a", "3")}, "assumed mine"},
		"both":                    {sets{slot1: set("", "a", "3"), slot2: set("", "mine", "7")}, "assumed a"},
		"both, the other way":     {sets{slot1: set("", "mine", "7"), slot2: set("", "a", "3")}, "assumed a"},
		"one that cannot be read": {sets{slot1: set("", "a", "x"), slot2: set("", "b", "3")}, "assumed b"},
		"of another server":       {sets{slot1: set("uid-2", "a", "3"), slot2: set("", "b", "4")}, "assumed mine"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stored{server: server(""), err: errors.New("the API server is away")}
				l, told := following(s)
				ctx, cancel := context.WithCancel(t.Context())
				changed, done := make(chan struct{}, 1), make(chan struct{})
				go func() {
					defer close(done)
					l.follow(ctx, s, changed)
				}()
				time.Sleep(time.Minute)
				if len(*told) > 0 {
					t.Errorf("while it cannot be read: %q", *told)
				}
				s.change(func() { s.sets, s.err = maps.Clone(tc.sets), nil })
				time.Sleep(10 * time.Minute)
				ring([]chan struct{}{changed})
				synctest.Wait()
				if diff := cmp.Diff([]string{tc.want, ""}, *told); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				cancel()
				<-done
			})
		})
	}
}
