package mcpserver

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/golden"
)

// life is one server from its creation on, with what happens to it step by step.
type life struct {
	*stored
	r      *Reconciler
	now    time.Time
	states []state
}

// state is the server as it stands after a step.
type state struct {
	Step   string `json:"step"`
	Again  string `json:"again,omitempty"`
	Server judged `json:"server"`
}

type judged struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}

func newLife(t *testing.T) *life {
	t.Helper()
	l := &life{stored: newStored(t), now: noon}
	_, own := schemas()
	applier := apply.New(l, l, apply.NewConverter(l.Scheme(), own), contract.Freehold())
	l.r = New(snapshot.NewReader(kinds.Servers(), l, l), applier, &events.FakeRecorder{}, options)
	l.r.Now = func() time.Time { return l.now }
	applier.Now = l.r.Now
	server := echoInPlace()
	server.Generation, server.Status.ObservedGeneration = 1, -1
	l.create(server)
	return l
}

// spec is a change of the spec, from Git.
func (l *life) spec(change func(*v1alpha1.MCPServer)) {
	server := read(l.stored)
	change(server)
	server.Generation++
	l.put(server)
}

// show keeps what a reader judges the state by.
func (l *life) show(step, again string) {
	server := read(l.stored)
	var shown judged
	shown.APIVersion, shown.Kind = v1alpha1.SchemeGroupVersion.String(), "MCPServer"
	shown.Metadata.Generation = server.Generation
	shown.Status.ObservedGeneration, shown.Status.Conditions = server.Status.ObservedGeneration, server.Status.Conditions
	l.states = append(l.states, state{step, again, shown})
}

// passes lets time go by, makes passes until nothing more is written, and keeps the state.
func (l *life) passes(step string, after time.Duration) {
	l.tb.Helper()
	l.now = l.now.Add(after)
	for range 10 {
		before := l.applies
		result, err := l.r.Reconcile(l.tb.Context(), theServer)
		if err != nil {
			l.tb.Fatalf("%s: %v", step, err)
		}
		if l.applies == before {
			again := ""
			if result.RequeueAfter > 0 {
				again = result.RequeueAfter.String()
			}
			l.show(step, again)
			return
		}
	}
	l.tb.Fatalf("%s: it does not come to rest", step)
}

func (l *life) proxy() *appsv1.Deployment {
	return l.objects[storedKey{"Deployment", "echo-proxy"}].(*appsv1.Deployment)
}

func (l *life) backend() *appsv1.StatefulSet {
	return l.objects[storedKey{"StatefulSet", "echo-backend"}].(*appsv1.StatefulSet)
}

// rollOut lets runner, controllers and kubelet do what the spec asks for.
func (l *life) rollOut() {
	delete(l.objects, storedKey{"StatefulSet", "echo-backend"})
	l.come(l.r.Applier)
	for _, name := range []string{"proxy", "backend"} {
		p := l.objects[storedKey{"Pod", name}].(*corev1.Pod)
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(l.now)
	}
}

// stop lets the controllers end all pods.
func (l *life) stop() {
	l.proxy().Status = appsv1.DeploymentStatus{ObservedGeneration: l.proxy().Generation}
	l.backend().Spec.Replicas, l.backend().Status = new(int32(0)), appsv1.StatefulSetStatus{}
	delete(l.objects, storedKey{"Pod", "proxy"})
	delete(l.objects, storedKey{"Pod", "backend"})
}

// pull makes a proxy pod that has its image, or has not.
func (l *life) pull(works bool) {
	w := read(l.stored).Status.Workload
	p := pod("proxy", workload.ComponentProxy, revision.Revision{Generation: w.Generation, Hash: w.Hash})
	if p = unready(p); !works {
		p = waiting(p, "ImagePullBackOff", "Back-off")
	}
	l.put(&p)
}

func (l *life) isBorn() {
	l.show("Git creates it", "")
	l.passes("it starts", 0)
	l.pull(false)
	l.passes("an image cannot be pulled", 9*time.Minute)
	l.passes("and cannot for some time", time.Minute)
	l.r = New(snapshot.NewReader(kinds.Servers(), l, l), l.r.Applier, &events.FakeRecorder{}, options)
	l.r.Now = func() time.Time { return l.now }
	l.passes("and cannot for a fifth of the deadline, over a restart of the operator", time.Minute)
	l.passes("and still cannot", time.Hour)
	l.pull(true)
	l.passes("the image is there", time.Second)
	l.rollOut()
	l.passes("it is ready", time.Second)
}

func (l *life) isUpdated() {
	l.backend().Status.Replicas = 3
	l.passes("surplus backends end", time.Hour)
	l.backend().Status.Replicas = 1
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Image = "registry.example.com/echo:2" })
	l.show("Git changes the image", "")
	l.passes("it updates", 0)
	l.objects[storedKey{"Pod", "backend"}].(*corev1.Pod).
		Status.Conditions[0].LastTransitionTime = metav1.NewTime(l.now.Add(9 * time.Minute))
	l.passes("it updates, and a pod became ready not long ago", 11*time.Minute)
	l.passes("it updates without progress", 8*time.Minute)
	l.objects[storedKey{"Pod", "backend"}].(*corev1.Pod).
		Status.Conditions[0].LastTransitionTime = metav1.NewTime(l.now.Add(time.Minute))
	l.passes("there is progress after all", time.Minute)
	l.rollOut()
	l.passes("it has got there", time.Minute)
	answers := &l.objects[storedKey{"Pod", "backend"}].(*corev1.Pod).Status.Conditions[0].Status
	*answers, l.backend().Status.ReadyReplicas = corev1.ConditionFalse, 0
	l.passes("no backend answers", time.Hour)
	*answers, l.backend().Status.ReadyReplicas = corev1.ConditionTrue, 1
	l.passes("one does again", time.Minute)
}

func (l *life) isSuspended() {
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Suspend = true })
	l.show("Git suspends it", "")
	l.passes("it stops", 0)
	l.stop()
	l.passes("it has stopped", time.Minute)
	l.passes("it is still stopped", time.Hour)
	l.spec(refusedSpec)
	l.passes("it has stopped, and its spec is wrong", time.Minute)
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.PodTemplate = nil })
	l.passes("and is right again", time.Minute)
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Suspend = false })
	l.show("Git resumes it", "")
	l.passes("it resumes", 0)
	l.rollOut()
	l.passes("it is ready again", time.Minute)
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Replicas = new(int32(0)) })
	l.passes("an autoscaler scales it to zero", 0)
	l.stop()
	l.passes("it has no backend left", time.Minute)
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Replicas = new(int32(1)) })
	l.passes("an autoscaler scales it up", 0)
	l.rollOut()
	l.passes("it is ready once more", time.Minute)
}

func (l *life) isRefused() {
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.ToolConfigRef = &v1alpha1.LocalReference{Name: "a"} })
	l.passes("it asks for a protection", 0)
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.ToolConfigRef = nil })
	l.passes("and does without", time.Minute)
	l.rollOut()
	l.passes("which runs", time.Minute)
	server := read(l.stored)
	server.Finalizers, server.ManagedFields = nil,
		slices.DeleteFunc(server.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == string(contract.MCPServerFinalizer)
		})
	l.put(server)
	l.refuse = func(kind string) error {
		if kind == "finalizer" {
			return apierrors.NewBadRequest("no finalizers today")
		}
		return nil
	}
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Image = "registry.example.com/echo:3" })
	l.passes("its finalizer is refused", time.Minute)
	l.rollOut()
	l.passes("and new content runs", time.Minute)
}

// What the operator says over the life of a server is what test/schema judges as Flux, Argo CD and kubectl do.
func TestTheLifeOfAServer(t *testing.T) {
	l := newLife(t)
	l.isBorn()
	l.isUpdated()
	l.isSuspended()
	l.isRefused()
	got, err := yaml.Marshal(l.states)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/life.yaml", string(got))
}
