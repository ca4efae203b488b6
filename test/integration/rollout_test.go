package integration

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// Only content rolls pods. What is not content leaves every pod that runs alone.
var _ = Describe("A change that is not content", func() {
	var s *kit.Env
	BeforeEach(func() {
		s = newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		ready(s, "echo")
	})

	DescribeTable("rolls no pod:", func(change func(), done func()) {
		before := uids(s)
		change()
		done()
		Expect(uids(s)).To(ContainElements(before), "a pod was replaced\n%s", s.Surroundings())
		live := serverOf(s, "echo")
		s.Read(live)
		Expect(live.Status.Workload.Generation).To(Equal(int64(1)))
	},
		Entry("scaling the backend through the scale subresource",
			func() { s.Scale(serverOf(s, "echo"), autoscaler, 3) }, func() { backendsReady(s, 3) }),
		Entry("scaling the proxy",
			func() { s.Apply(git, server("echo", "proxy: {replicas: 2}")) }, func() { proxiesReady(s, 2) }),
		Entry("a label and an annotation of the server",
			func() {
				s.Apply("team", "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo, labels: {team: red}, "+
					"annotations: {note: mine}}\n")
			},
			// A pass that writes nothing cannot be seen; a later one that scales can.
			func() { s.Apply(git, server("echo", "proxy: {replicas: 2}")); proxiesReady(s, 2) }),
		Entry("joining a group",
			func() { s.Apply(git, server("echo", "groupRef: {name: tools}")) }, func() { settled(s); ready(s, "echo") }),
		Entry("a label for the Service",
			func() { s.Apply(git, server("echo", "proxy: {service: {labels: {team: red}}}")) }, func() {
				service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "echo-proxy"}}
				s.Await(service, "the Service has the label", func() error { return equal(service.Labels["team"], "red") })
			}),
	)

	It("hands the replicas from Git to an autoscaler and keeps the count", func() {
		s.Apply(git, server("echo", "replicas: 3"))
		backendsReady(s, 3)
		recording := s.Record(backendOf(s, "echo"))
		s.Scale(serverOf(s, "echo"), autoscaler, 3)
		s.Apply(autoscaler, "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nspec: {replicas: "+
			"3}\n")
		s.Apply(git, server("echo", ""))
		s.Owns(serverOf(s, "echo"), autoscaler, "spec.replicas")
		settled(s)
		recording.Check(func(f kit.State) error { return equal(replicasOf(f), 3) })
		s.Scale(serverOf(s, "echo"), autoscaler, 5)
		backendsReady(s, 5)
		s.Apply(git, server("echo", `args: [a]`))
		rolledOut(s, "echo", 2)
		backendsReady(s, 5)
		recording.Check(func(f kit.State) error { return among(replicasOf(f), 3, 5) })
	})

	It("shows an autoscaler its scale, and stays Ready meanwhile, also while surplus pods end", func() {
		recording := s.Record(serverOf(s, "echo"))
		s.Scale(serverOf(s, "echo"), autoscaler, 2)
		backendsReady(s, 2)
		live := serverOf(s, "echo")
		s.Await(live, "the status counts two", func() error {
			if live.Status.Replicas == nil || live.Status.ReadyReplicas == nil || *live.Status.Replicas != 2 ||
				*live.Status.ReadyReplicas != 2 {
				return fmt.Errorf("replicas %v, readyReplicas %v", live.Status.Replicas, live.Status.ReadyReplicas)
			}
			return nil
		})
		Expect(live.Status.Selector).To(Equal(metav1.FormatLabelSelector(&metav1.LabelSelector{
			MatchLabels: workload.Selector("echo", workload.ComponentBackend),
		})))
		release := plane.Kubelet.HoldTermination(func(p *corev1.Pod) bool { return p.Namespace == s.Namespace })
		s.Scale(serverOf(s, "echo"), autoscaler, 1)
		set := backendOf(s, "echo")
		s.Await(set, "a surplus pod ends", func() error { return equal(set.Status.Replicas-set.Status.UpdatedReplicas, 1) })
		settled(s)
		release()
		backendsReady(s, 1)
		recording.Check(func(f kit.State) error {
			seen := &v1alpha1.MCPServer{}
			err := decode(f.Object, seen)
			if err == nil && !meta.IsStatusConditionTrue(seen.Status.Conditions, v1alpha1.ConditionReady) {
				err = fmt.Errorf("it is not: %s", readyMessage(seen))
			}
			return err
		})
	})
})

var _ = Describe("A change of content", func() {
	DescribeTable("raises the generation by one and replaces proxy and backend:", func(more string) {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		ready(s, "echo")
		before := uids(s)
		s.Apply(git, server("echo", more))
		rolledOut(s, "echo", 2)
		ready(s, "echo")
		Expect(uids(s)).NotTo(ContainElements(before), "a pod stayed\n%s", s.Surroundings())
	},
		Entry("arguments", `args: [a]`),
		Entry("an overlay", `podTemplate: {spec: {terminationGracePeriodSeconds: 7}}`),
	)
})

// uids are those of the pods of the test that are not ending.
func uids(s *kit.Env) []string {
	GinkgoHelper()
	var list corev1.PodList
	s.AwaitAll(&list, "no pod is ending", func() error {
		for _, pod := range list.Items {
			if pod.DeletionTimestamp != nil {
				return fmt.Errorf("%s is", pod.Name)
			}
		}
		return nil
	})
	var uids []string
	for _, pod := range list.Items {
		uids = append(uids, string(pod.UID))
	}
	slices.Sort(uids)
	return uids
}

func backendsReady(s *kit.Env, n int32) {
	GinkgoHelper()
	set := backendOf(s, "echo")
	s.Await(set, fmt.Sprintf("%d backends are ready", n), func() error {
		if set.Status.ReadyReplicas != n || set.Status.Replicas != n || set.Status.ObservedGeneration != set.Generation {
			return fmt.Errorf("%d of %d are", set.Status.ReadyReplicas, set.Status.Replicas)
		}
		return nil
	})
}

func proxiesReady(s *kit.Env, n int32) {
	GinkgoHelper()
	proxy := proxyOf(s, "echo")
	s.Await(proxy, fmt.Sprintf("%d proxies are ready", n), func() error {
		if proxy.Status.ReadyReplicas != n || proxy.Status.Replicas != n ||
			proxy.Status.ObservedGeneration != proxy.Generation {
			return fmt.Errorf("%d of %d are", proxy.Status.ReadyReplicas, proxy.Status.Replicas)
		}
		return nil
	})
}

// settled waits until the operator has judged the present spec.
func settled(s *kit.Env) *v1alpha1.MCPServer {
	GinkgoHelper()
	live := serverOf(s, "echo")
	s.Await(live, "the operator has judged the spec",
		func() error { return equal(live.Status.ObservedGeneration, live.Generation) })
	return live
}

func replicasOf(f kit.State) int64 {
	replicas, _ := f.Object.Object["spec"].(map[string]any)["replicas"].(int64)
	return replicas
}

func equal[T comparable](got, want T) error { return among(got, want) }

func among[T comparable](got T, want ...T) error {
	if !slices.Contains(want, got) {
		return fmt.Errorf("it is %v, want one of %v", got, want)
	}
	return nil
}

func none(n int) error {
	if n > 0 {
		return fmt.Errorf("%d are left", n)
	}
	return nil
}
