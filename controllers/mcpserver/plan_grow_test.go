package mcpserver

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// counts are how many pods the children of a server ask for.
func (l *life) counts() [2]int32 {
	return [2]int32{ptr.Deref(l.proxy().Spec.Replicas, 1), ptr.Deref(l.backend().Spec.Replicas, 1)}
}

// raise lets the runner of the claimed content apply the backend.
func (l *life) raise() {
	l.tb.Helper()
	server, had := read(l.stored), l.backend().Spec.Replicas
	backend, err := workload.Backend(contentOf(server), workload.Slot1)
	if err == nil {
		_, err = l.r.Applier.As(contract.RunnerBackend).Apply(l.tb.Context(), l.backend(), backend)
	}
	if err != nil {
		l.tb.Fatal(err)
	}
	l.backend().Spec.Replicas = had
}

// A StatefulSet makes pods of what it carries, and a Deployment first scales what it has:
// so neither is told to make more before it carries the content of the spec.
func TestNoMorePodsOfOlderContentAreStarted(t *testing.T) {
	suspend := func(s *v1alpha1.MCPServer) { s.Spec.Suspend = true }
	scale := func(backend, proxy int32) func(*v1alpha1.MCPServer) {
		return func(s *v1alpha1.MCPServer) {
			s.Spec.Suspend, s.Spec.Replicas, s.Spec.Proxy.Replicas = false, new(backend), new(proxy)
		}
	}
	for name, tc := range map[string]struct {
		before, spec  func(*v1alpha1.MCPServer) // spec also changes the image
		first, raised [2]int32                  // proxies and backends asked for before the backend is raised, and then
	}{
		"it resumes":                        {suspend, scale(1, 1), [2]int32{1, 0}, [2]int32{1, 1}},
		"it resumes with more":              {suspend, scale(4, 3), [2]int32{3, 0}, [2]int32{3, 4}},
		"it is scaled up from zero":         {scale(0, 1), scale(4, 1), [2]int32{1, 0}, [2]int32{1, 4}},
		"only the proxy was scaled to zero": {scale(2, 0), scale(4, 2), [2]int32{2, 2}, [2]int32{2, 4}},
		"it is scaled up":                   {scale(1, 1), scale(5, 4), [2]int32{1, 1}, [2]int32{1, 5}},
		"it is scaled down":                 {scale(5, 4), scale(2, 3), [2]int32{3, 2}, [2]int32{3, 2}},
		// until calls have ended
		"it is scaled to zero": {scale(5, 4), scale(0, 4), [2]int32{0, 5}, [2]int32{0, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t)
			l.passes("it starts", 0)
			l.rollOut()
			l.passes("it is ready", time.Second)
			l.spec(tc.before)
			l.passes("before", time.Second)
			l.grown()
			l.passes("before", time.Second)
			l.grown()
			l.passes("before", time.Second)
			l.spec(tc.spec)
			l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Image = "registry.example.com/echo:2" })
			l.passes("other content", time.Second)
			if got := l.counts(); got != tc.first {
				t.Errorf("proxies and backends asked for are %v, want %v", got, tc.first)
			}
			l.raise()
			l.passes("the runner raises the backend", time.Second)
			if got := l.counts(); got != tc.raised {
				t.Errorf("proxies and backends asked for are %v, want %v", got, tc.raised)
			}
			if tc.raised[0] == 0 {
				return
			}
			l.grown()
			l.passes("it has rolled out", time.Second)
			server := read(l.stored)
			if want := [2]int32{*server.Spec.Proxy.Replicas, *server.Spec.Replicas}; l.counts() != want {
				t.Errorf("in the end %v are asked for, want %v", l.counts(), want)
			}
		})
	}
}

// grown lets the controllers make the pods that are asked for, of the content that is carried, and end the others.
func (l *life) grown() {
	n := l.counts()
	for i, name := range []string{"proxy", "backend"} {
		if n[i] == 0 {
			delete(l.objects, storedKey{"Pod", name})
		}
	}
	l.proxy().Status = appsv1.DeploymentStatus{
		ObservedGeneration: l.proxy().Generation, Replicas: n[0],
		UpdatedReplicas: n[0], AvailableReplicas: n[0],
	}
	status := backendOf(current).Status
	status.Replicas, status.UpdatedReplicas, status.ReadyReplicas = n[1], n[1], n[1]
	l.backend().Status = status
}

// What was accepted last keeps running under a spec that is wrong, but is not started again by it.
func TestASpecThatIsWrongStartsNothing(t *testing.T) {
	l := newLife(t)
	l.passes("it starts", 0)
	l.rollOut()
	l.passes("it is ready", time.Second)
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Suspend = true })
	l.passes("it stops", time.Second)
	l.stop()
	l.passes("it has stopped", time.Second)
	l.spec(refusedSpec)
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Suspend = false })
	l.passes("it resumes, and its spec is wrong", time.Second)
	if got := l.counts(); got != [2]int32{} {
		t.Errorf("proxies and backends asked for are %v, want none", got)
	}
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.PodTemplate = nil })
	l.passes("it is right again", time.Second)
	if got := l.counts(); got != [2]int32{1, 1} {
		t.Errorf("proxies and backends asked for are %v, want one each", got)
	}
	l.rollOut()
	l.passes("it is ready", time.Second)
	l.spec(refusedSpec)
	l.passes("its spec is wrong", time.Second)
	if err := l.apply(scaledBy(0), "intruder", ""); err != nil {
		t.Fatal(err)
	}
	l.passes("somebody else scales the proxy to zero", time.Second)
	if got := l.counts(); got != [2]int32{1, 1} {
		t.Errorf("proxies and backends asked for are %v, want one each", got)
	}
}

func scaledBy(replicas int32) *appsv1ac.DeploymentApplyConfiguration {
	return appsv1ac.Deployment("echo-proxy", "ns").WithSpec(appsv1ac.DeploymentSpec().WithReplicas(replicas))
}

// Whoever scales the proxy by hand is undone, also where the Deployment controller takes
// longer than a pass to observe it.
func TestAProxyThatWasScaledByHandComesBack(t *testing.T) {
	l := newLife(t)
	l.passes("it starts", 0)
	l.rollOut()
	l.passes("it is ready", time.Second)
	l.passes("it is known", time.Second)
	if err := l.apply(scaledBy(0), "intruder", ""); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.passes("the Deployment controller has not seen it", time.Second)
	}
	l.grown()
	l.passes("it has", time.Second)
	if got := l.counts(); got != [2]int32{1, 1} {
		t.Errorf("proxies and backends asked for are %v, want one each", got)
	}
}
