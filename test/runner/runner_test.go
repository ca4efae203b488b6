package runner

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
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
		rev, err := revision.Of(set.Annotations)
		if err != nil || rev.Generation != generation || set.Spec.Template.Spec.Containers[0].Image != image {
			return fmt.Errorf("it carries %v with image %s: %w", rev, set.Spec.Template.Spec.Containers[0].Image, err)
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
		case r.Generation != generation || r.ServerUID != string(s.object.UID) || r.Tools == nil || *r.Tools != 2 ||
			r.Server == nil || r.Server.Name != "bench":
			return fmt.Errorf("runtime %+v", *r)
		case c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonApplied:
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

	s.Force("intruder", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: echo-backend, labels: {theirs: "+
		"stays}}\n"+
		"spec: {template: {spec: {containers: [{name: server, image: 'intruder:1'}]}}}")
	set = s.carries(1, "echo:1")
	p.saw(
		fmt.Sprintf(
			`"msg":"repaired","namespace":%q,"server":"echo","generation":1,"object":"StatefulSet","objectName":"echo-backend"`,
			s.Namespace))
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
	p.rests()
}

func TestARunnerTellsWhetherMCPAnswers(t *testing.T) {
	s := newServer(t)
	good, err := url.Parse(s.backend)
	s.Must(err, "reading the backend's address")
	mcp := httputil.NewSingleHostReverseProxy(good)
	var mended atomic.Bool
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mended.Load() {
			http.NotFound(w, r)
			return
		}
		mcp.ServeHTTP(w, r)
	}))
	t.Cleanup(backend.Close)
	s.backend = backend.URL
	s.start(s.claim(1, "echo:1"))
	live := s.answers(metav1.ConditionFalse, "NotMCP",
		"answers, but not MCP at /mcp (HTTP 404): write the path of its MCP endpoint into spec.path")
	if live.Status.Runtime.Tools != nil {
		t.Errorf("something was learned: %+v", live.Status.Runtime)
	}

	mended.Store(true)
	live = s.answers(metav1.ConditionTrue, "Answers", "the backend answers MCP")
	if r := live.Status.Runtime; r.Tools == nil || *r.Tools != 2 || r.Server == nil || len(r.ProtocolVersions) == 0 {
		t.Errorf("it answers, and this was learned: %+v", r)
	}

	// A failure later is not told, a new content is asked anew.
	mended.Store(false)
	s.start(s.claim(1, "echo:1")).saw("the backend does not answer MCP")
	s.answers(metav1.ConditionTrue, "Answers", "the backend answers MCP")
	s.start(s.claim(2, "echo:2"))
	s.answers(metav1.ConditionFalse, "NotMCP", "HTTP 404")
}

// answers waits until the runner says of MCP what it should.
func (s *server) answers(status metav1.ConditionStatus, reason, says string) *v1alpha1.MCPServer {
	s.Helper()
	live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	s.Await(live, "BackendAnswers is "+string(status), func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionBackendAnswers)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	return live
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
