package runner

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

func statefulSet() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: workload.BackendName("echo")}}
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// carries waits until the backend carries a generation.
func (s *server) carries(generation int64, image string) *appsv1.StatefulSet {
	s.Helper()
	set := statefulSet()
	s.Await(set, fmt.Sprintf("the backend carries %d", generation), func() error {
		mark, err := workload.MarkOf(set.Annotations)
		if err != nil || mark.Generation != generation || set.Spec.Template.Spec.Containers[0].Image != image {
			return fmt.Errorf("it carries %v with image %s: %w", mark, set.Spec.Template.Spec.Containers[0].Image, err)
		}
		return nil
	})
	return set
}

// reports waits until the status has what a runner of the generation learns.
func (s *server) reports(generation int64) {
	s.Helper()
	live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	s.Await(live, fmt.Sprintf("generation %d reports", generation), func() error {
		r, c := live.Status.Runtime, meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionBackendApplied)
		switch {
		case r == nil || c == nil:
			return fmt.Errorf("runtime %v, condition %v", r, c)
		case r.Generation != generation || r.ServerUID != string(s.object.UID) || r.Tools == nil || *r.Tools != 2 || r.Server == nil || r.Server.Name != "bench":
			return fmt.Errorf("runtime %+v", *r)
		case c.Status != metav1.ConditionTrue || c.Message != fmt.Sprintf("the backend carries workload generation %d", generation):
			return fmt.Errorf("condition %+v", *c)
		}
		return nil
	})
}

func TestARunnerBringsABackendAndKeepsIt(t *testing.T) {
	s := newServer(t)
	p := s.start(s.claim(1, "echo:1"))
	set := s.carries(1, "echo:1")
	s.reports(1)
	s.Must(p.callsTool(), "calling a tool")
	s.Owns(set, "runner.freehold.dev/backend", "spec.template")
	if owners := s.OwnersOf(set, "spec.replicas"); len(owners) > 0 {
		t.Errorf("spec.replicas is owned by %v", owners)
	}

	s.Force("intruder", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: echo-backend, labels: {theirs: stays}}\n"+
		"spec: {template: {spec: {containers: [{name: server, image: 'intruder:1'}]}}}")
	set = s.carries(1, "echo:1")
	p.saw(`"msg":"taken back","object":"StatefulSet","name":"echo-backend"`)
	p.saw(`"from":["intruder"]`)
	if set.Labels["theirs"] != "stays" {
		t.Errorf("a foreign label is gone: %v", set.Labels)
	}
	for _, name := range []string{"echo-backend", "echo-backend-headless"} {
		old := service(name)
		s.Read(old)
		s.Delete(service(name))
		again := service(name)
		s.Await(again, name+" is back", func() error {
			if again.UID == old.UID {
				return fmt.Errorf("it is the old one")
			}
			return nil
		})
	}
	old := s.carries(1, "echo:1").UID
	s.Delete(statefulSet())
	s.Await(set, "the StatefulSet is back", func() error {
		if set.UID == old {
			return fmt.Errorf("it is the old one")
		}
		return nil
	})
}

func TestANewerRunnerTakesOverAndAnOlderOneServesOn(t *testing.T) {
	s := newServer(t)
	first := s.claim(1, "echo:1")
	old := s.start(first)
	s.reports(1)
	newer := s.start(s.claim(2, "echo:2"))
	s.carries(2, "echo:2")
	s.reports(2)
	old.saw("workload generation 2 has reported, ours is 1")

	before := s.Versions()
	restarted := s.start(first)
	restarted.saw("workload generation 2 has reported, ours is 1")
	s.NothingMoved(before)
	for _, p := range []*process{old, newer, restarted} {
		s.Must(p.callsTool(), "calling a tool")
	}

	s.Delete(statefulSet())
	s.carries(2, "echo:2")
}

func TestNothingIsWrittenAfterSIGTERM(t *testing.T) {
	s := newServer(t)
	p := s.start(s.claim(1, "echo:1"))
	s.reports(1)
	p.terminate()
	p.saw("draining")
	s.Delete(service("echo-backend"))
	s.Must(p.callsTool(), "calling a tool while it drains")
	p.saw("drained")
	if s.Exists(service("echo-backend")) {
		t.Error("the Service came back")
	}
}

func TestARunnerOutlivesTheAPIServer(t *testing.T) {
	s := newServer(t)
	s.wire.set(true)
	p := s.start(s.claim(1, "echo:1"))
	p.saw("starting")
	s.Await(&s.object, "it stands", func() error { return nil })
	s.Must(p.callsTool(), "calling a tool before the API server was ever reached")

	s.wire.set(false)
	s.reports(1)

	s.wire.set(true)
	s.Must(p.callsTool(), "calling a tool without the API server")
	s.Delete(service("echo-backend-headless"))
	s.wire.set(false)
	s.Await(service("echo-backend-headless"), "what went meanwhile is back", func() error { return nil })
}

func TestASuspendedServerIsLeftAlone(t *testing.T) {
	s := newServer(t)
	p := s.start(s.claim(1, "echo:1"))
	s.reports(1)
	s.Patch(&s.object, "user", `{"spec":{"suspend":true}}`)
	p.saw("the MCPServer is suspended")
	s.Delete(service("echo-backend"))
	s.Patch(&s.object, "user", `{"spec":{"suspend":false}}`)
	s.Await(service("echo-backend"), "it is back", func() error { return nil })
}
