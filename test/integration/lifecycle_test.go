package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

var _ = Describe("A server", func() {
	It("is suspended, keeps everything but its pods, and resumes", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", "replicas: 2"))
		ready(s, "echo")
		s.Apply(git, server("echo", "replicas: 2\nsuspend: true"))
		stopped(s, "echo", v1alpha1.ReasonSuspended)
		var pods corev1.PodList
		s.AwaitAll(&pods, "no pod is left", func() error { return none(len(pods.Items)) })
		for _, child := range []client.Object{
			proxyOf(s, "echo"), backendOf(s, "echo"),
			&corev1.Service{ObjectMeta: called("echo-backend")},
		} {
			Expect(s.Exists(child)).To(BeTrue(), s.Title(child))
		}
		s.Apply(git, server("echo", "replicas: 2"))
		live := ready(s, "echo")
		backendsReady(s, 2)
		Expect(live.Status.Workload.Generation).To(Equal(int64(1)), "suspension is not content")
	})

	It("restarts proxy and backend when restartedAt changes, and nobody writes it back", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		ready(s, "echo")
		before := uids(s)
		s.Apply("kubectl-restart", "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nspec: "+
			"{restartedAt: \"2026-01-01T00:00:00Z\"}\n")
		rolledOut(s, "echo", 2)
		atRest(s, "echo")
		after := uids(s)
		for _, uid := range before {
			Expect(after).NotTo(ContainElement(uid), "a pod was not restarted\n%s", s.Surroundings())
		}
		s.Owns(serverOf(s, "echo"), "kubectl-restart", "spec.restartedAt")
	})

	It("may have a namesake in another namespace", func() {
		s := newEnv()
		other := s.On(s.NewNamespace())
		operate(s, other.Namespace)
		s.RunProxies(other.Namespace)
		s.Apply(git, server("echo", ""))
		other.Apply(git, kit.Server("echo", imageTwo, "replicas: 2"))
		here, there := ready(s, "echo"), atRest(other, "echo")
		Expect(here.Status.URL).NotTo(Equal(there.Status.URL))
		before := other.Versions()
		s.Apply(git, server("echo", "args: [a]"))
		rolledOut(s, "echo", 2)
		s.Delete(here)
		s.AwaitGone(here)
		other.NothingMoved(before)
	})
})

// A backend pod that is told to end while a proxy holds calls cuts them.
var _ = DescribeTable("Calls end before what they call, where a server",
	func(reason string, stop func(*kit.Env), gone bool) {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", "replicas: 2\nproxy: {replicas: 2}"))
		ready(s, "echo")
		proxiesReady(s, 2)
		pods := s.RecordAll(&corev1.Pod{})
		isProxy := func(o client.Object) bool { return o.GetLabels()[workload.LabelComponent] == workload.ComponentProxy }
		release := plane.Kubelet.HoldTermination(func(p *corev1.Pod) bool { return p.Namespace == s.Namespace && isProxy(p) })
		stop(s)
		notReady(s, "echo", reason)
		var live corev1.PodList
		s.AwaitAll(&live, "both proxy pods are told to end", func() error {
			return equal(len(slices.DeleteFunc(slices.Clone(live.Items),
				func(p corev1.Pod) bool { return !isProxy(&p) || p.DeletionTimestamp == nil })), 2)
		})
		set := backendOf(s, "echo")
		s.Read(set)
		Expect(set.DeletionTimestamp).To(BeNil(), "the backend goes while proxies still answer")
		Expect(set.Spec.Replicas).To(HaveValue(Equal(int32(2))))
		Expect(s.Exists(serverOf(s, "echo"))).To(BeTrue())
		release()
		s.AwaitAll(&live, "no pod is left", func() error { return none(len(live.Items)) })
		lastProxy := lastEnd(pods, func(o *unstructured.Unstructured) bool { return isProxy(o) })
		pods.Check(func(state kit.State) error {
			if o := state.Object; !isProxy(o) && o.GetDeletionTimestamp() != nil && !kit.Before(lastProxy, state) {
				return errors.New("it was told to end before the last proxy pod was gone")
			}
			return nil
		})
		if gone {
			s.AwaitGone(serverOf(s, "echo"))
			leavesNothing(s)
		}
	},
	Entry("is deleted in the background", v1alpha1.ReasonDeleting, deleted(metav1.DeletePropagationBackground), true),
	Entry("is deleted in the foreground", v1alpha1.ReasonDeleting, deleted(metav1.DeletePropagationForeground), true),
	Entry("is deleted in the foreground, without its finalizer", v1alpha1.ReasonDeleting, func(s *kit.Env) {
		deleted(metav1.DeletePropagationForeground)(s)
		s.Patch(serverOf(s, "echo"), "impatient", `{"metadata":{"finalizers":["foregroundDeletion"]}}`)
	}, true),
	Entry("is suspended", v1alpha1.ReasonSuspended, func(s *kit.Env) {
		s.Apply(git, server("echo", "suspend: true\nreplicas: 2\nproxy: {replicas: 2}"))
	}, false),
	Entry("is scaled to zero", v1alpha1.ReasonScaledToZero,
		func(s *kit.Env) { s.Scale(serverOf(s, "echo"), "autoscaler", 0) }, false),
)

// A pod that ends still answers, so what keeps others from it stays as long.
var _ = DescribeTable("The policy in front of a backend outlives its pods, where a server", func(stop func(*kit.Env)) {
	s := newEnv()
	operate(s)
	s.RunProxies()
	s.Apply(git, server("echo", "network: {backendIngress: ProxyOnly, egress: []}"))
	ready(s, "echo")
	policies, pods := s.RecordAll(&networkingv1.NetworkPolicy{}), s.RecordAll(&corev1.Pod{})
	isBackend := func(o client.Object) bool { return o.GetLabels()[workload.LabelComponent] == workload.ComponentBackend }
	release := plane.Kubelet.HoldTermination(func(p *corev1.Pod) bool {
		return p.Namespace == s.Namespace && isBackend(p)
	})
	stop(s)
	var live corev1.PodList
	s.AwaitAll(&live, "the backend pod is told to end", func() error {
		return equal(len(slices.DeleteFunc(slices.Clone(live.Items),
			func(p corev1.Pod) bool { return !isBackend(&p) || p.DeletionTimestamp == nil })), 1)
	})
	Consistently(func() bool { return s.Exists(&networkingv1.NetworkPolicy{ObjectMeta: called("echo-backend")}) }).
		WithTimeout(2 * time.Second).Should(BeTrue())
	release()
	s.AwaitGone(serverOf(s, "echo"))
	leavesNothing(s)
	lastBackend := lastEnd(pods, func(o *unstructured.Unstructured) bool { return isBackend(o) })
	policies.Check(func(state kit.State) error {
		if state.Deleted && !kit.Before(lastBackend, state) {
			return errors.New("it was deleted before the last backend pod was gone")
		}
		return nil
	})
},
	Entry("is deleted in the background", waitsForItsBackend(metav1.DeletePropagationBackground)),
	Entry("is deleted in the foreground", waitsForItsBackend(metav1.DeletePropagationForeground)),
	// The garbage collector is refused the policy, and the operator has no server left to wait with.
	Entry("is deleted, and somebody removes its finalizer", func(s *kit.Env) {
		proxies := plane.Kubelet.HoldTermination(func(p *corev1.Pod) bool { return p.Namespace == s.Namespace })
		s.Delete(serverOf(s, "echo"))
		s.Patch(serverOf(s, "echo"), "impatient", `{"metadata":{"finalizers":null}}`)
		proxies()
	}),
)

// waitsForItsBackend deletes a server, and waits until it says that it waits.
func waitsForItsBackend(policy metav1.DeletionPropagation) func(*kit.Env) {
	return func(s *kit.Env) {
		deleted(policy)(s)
		live := serverOf(s, "echo")
		s.Await(live, "it waits for its backend pods", func() error {
			c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady)
			if c == nil || !strings.Contains(c.Message, "waiting for the backend pods to end") {
				return fmt.Errorf("the condition is %v", c)
			}
			return nil
		})
	}
}

func deleted(policy metav1.DeletionPropagation) func(*kit.Env) {
	return func(s *kit.Env) { s.Delete(serverOf(s, "echo"), client.PropagationPolicy(policy)) }
}

var _ = Describe("A deletion", func() {
	It("leaves no NetworkPolicy that keeps the next server of its name waiting, also where that cannot go", func() {
		s := newEnv()
		o := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", "network: {egress: []}"))
		ready(s, "echo")
		o.stop()
		s.Delete(serverOf(s, "echo"))
		s.Patch(serverOf(s, "echo"), "impatient", `{"metadata":{"finalizers":null}}`)
		s.AwaitGone(serverOf(s, "echo"))
		s.Apply(git, server("echo", "network: {egress: []}"))
		o.start(controllers.Options{})
		ready(s, "echo")
		policy := &networkingv1.NetworkPolicy{ObjectMeta: called("echo-backend")}
		policy.Namespace = s.Namespace
		s.Patch(policy, "editor", `{"metadata":{"finalizers":["example.com/kept"]}}`)
		s.Delete(serverOf(s, "echo"))
		s.AwaitGone(serverOf(s, "echo"))
		s.Apply(git, server("echo", "network: {egress: []}"))
		live := serverOf(s, "echo")
		s.Await(live, "it has a condition", func() error {
			if meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady) == nil {
				return errors.New("it has none")
			}
			return nil
		})
		s.Patch(policy, "editor", `{"metadata":{"finalizers":null}}`)
		ready(s, "echo")
	})

	It("of the whole namespace ends, and is calm", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		s.Apply(git, server("other", ""))
		ready(s, "echo")
		ready(s, "other")
		mark := op.requests.Mark()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
		s.Must(s.Client.Delete(s.Ctx, namespace), "deleting the namespace")
		s.AwaitGone(namespace)
		refused := op.writes(mark).Answered(403)
		// An object that goes wakes a pass, a pod twice, and a pass asks once.
		Expect(len(refused)).To(BeNumerically("<=", 2*objects), "births in a namespace that goes:\n%s", refused)
	})
})

// objects is how many events come of the end of a server's six children, its backend with two Services, and two pods.
const objects = 6 + 3 + 2*2

// lastEnd is the state of the last deletion of what matches.
func lastEnd(recording *kit.Recording, matches func(*unstructured.Unstructured) bool) kit.State {
	GinkgoHelper()
	var last *kit.State
	for _, state := range recording.States() {
		if state.Deleted && matches(state.Object) {
			last = &state
		}
	}
	Expect(last).NotTo(BeNil(), "nothing that matches was deleted")
	return *last
}

// leavesNothing waits until nothing that carries a server's label is left.
func leavesNothing(s *kit.Env) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.ReplicaSetList{}, &corev1.ConfigMapList{},
		&corev1.ServiceList{}, &corev1.PodList{},
		&networkingv1.NetworkPolicyList{},
	} {
		s.AwaitAll(list, fmt.Sprintf("%T is empty", list), func() error { return emptyList(list) },
			client.HasLabels{workload.LabelServer})
	}
}
