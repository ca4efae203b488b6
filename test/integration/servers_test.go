package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// The images of the stories. Each run of the pods' fates is per image, so a
// story that changes a fate uses an image of its own.
const (
	imageOne = "registry.example.com/echo:1"
	imageTwo = "registry.example.com/echo:2"
)

// The managers of the stories beside ours.
const (
	git        = "argocd-controller"
	authorizer = "authorizer"
	autoscaler = "horizontal-pod-autoscaler"
)

// server is an MCPServer as a user writes it, with more of its spec in more.
func server(name, more string) string { return kit.Server(name, imageOne, more) }

// long makes the run config of a server longer than what a pod template carries.
var long = "args: [" + strings.Repeat("x", 17<<10) + "]"

func serverOf(s *kit.Env, name string) *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
}

func proxyOf(s *kit.Env, name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name + "-proxy", Namespace: s.Namespace}}
}

func backendOf(s *kit.Env, name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name + "-backend", Namespace: s.Namespace}}
}

// inPlace has new content replace the pods of a backend.
const inPlace = "rollout: {strategy: Replace}"

// ready waits until the server says Ready for the spec that now stands.
func ready(s *kit.Env, name string) *v1alpha1.MCPServer {
	GinkgoHelper()
	return saying(s, name, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// notReady waits until the server gives a reason for not being ready.
func notReady(s *kit.Env, name, reason string) *v1alpha1.MCPServer {
	GinkgoHelper()
	return saying(s, name, metav1.ConditionFalse, reason)
}

// stopped waits until the server has stopped as its spec says, which kstatus takes
// for done and who waits for Ready does not.
func stopped(s *kit.Env, name, reason string) {
	GinkgoHelper()
	live := serverOf(s, name)
	s.Await(live, name+" has stopped with "+reason, func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionSuspended)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || c.ObservedGeneration != live.Generation {
			return fmt.Errorf("Suspended is %+v, Ready says %s", c, readyMessage(live))
		}
		return nil
	})
	Expect(meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady)).To(BeNil())
	object := s.Intent(kit.Server(name, imageOne, ""))
	s.Read(object)
	Expect(current(object)()).To(Succeed())
}

func saying(s *kit.Env, name string, status metav1.ConditionStatus, reason string) *v1alpha1.MCPServer {
	GinkgoHelper()
	live := serverOf(s, name)
	s.Await(live, fmt.Sprintf("%s says Ready=%s with %s", name, status, reason), func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case c == nil:
			return fmt.Errorf("there is no condition Ready")
		case c.ObservedGeneration != live.Generation:
			return fmt.Errorf("Ready=%s speaks of generation %d, the spec is %d", c.Status, c.ObservedGeneration,
				live.Generation)
		case c.Status != status || c.Reason != reason:
			return fmt.Errorf("Ready=%s, %s: %s", c.Status, c.Reason, c.Message)
		}
		return nil
	})
	return live
}

// atRest waits until everything has been said about a server that is ready:
// what comes after Ready are its counts and the runner's own condition.
func atRest(s *kit.Env, name string) *v1alpha1.MCPServer {
	GinkgoHelper()
	live := ready(s, name)
	s.Await(live, name+" is at rest", func() error {
		up, want := live.Status.ReadyReplicas, live.Spec.Replicas
		switch {
		case live.Status.URL == "" || up == nil || want == nil || *up != *want:
			return fmt.Errorf("the counts are %v of %v", up, want)
		case !meta.IsStatusConditionTrue(live.Status.Conditions, v1alpha1.ConditionBackendApplied):
			return fmt.Errorf("the runner has not reported what it applied")
		case live.Status.Rollout != nil:
			return fmt.Errorf("it rolls out: %+v", live.Status.Rollout)
		}
		return nil
	})
	return live
}

// readyMessage is what Ready says.
func readyMessage(live *v1alpha1.MCPServer) string {
	if c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// rolledOut waits until content has been claimed under a generation and a runner of it has reported.
func rolledOut(s *kit.Env, name string, generation int64) *v1alpha1.MCPServer {
	GinkgoHelper()
	live := serverOf(s, name)
	s.Await(live, fmt.Sprintf("%s runs generation %d", name, generation), func() error {
		if w, r := live.Status.Workload, live.Status.Runtime; w == nil || r == nil || w.Generation != generation ||
			r.Generation != generation {
			return fmt.Errorf("status.workload is %+v, status.runtime %+v", w, r)
		}
		return nil
	})
	return live
}
