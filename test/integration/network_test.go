package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	allTools = `
authzConfig:
  policies:
  - {name: all, policy: "permit(principal, action, resource);"}
  - {name: typo, policy: 'forbid(principal, action == Action::"call_tol", resource);'}`
	ingress = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: echo-backend}\nspec: " +
		"{podSelector: {}, ingress: [{}]}\n"
)

// What guards the proxy guards the backend too, unless the spec says otherwise.
var _ = It("A protected server lets only its proxy connect to its backend", func() {
	s := newEnv()
	op := operate(s)
	s.RunProxies()
	policy := &networkingv1.NetworkPolicy{ObjectMeta: called("echo-backend")}
	s.Apply(git, server("other", ""))
	s.Apply(git, server("echo", ""))
	ready(s, "other")
	ready(s, "echo")
	Expect(s.Exists(policy)).To(BeFalse())

	mark := op.requests.Mark()
	s.Apply(git, server("echo", allTools))
	c := meta.FindStatusCondition(ready(s, "echo").Status.Conditions, v1alpha1.ConditionPolicyUnmatched)
	Expect(c).NotTo(BeNil())
	Expect(c.Message).To(HavePrefix(`policy "typo", line 1, column 1: action == Action::"call_tol" matches nothing: `))
	Expect(order(op.writes(mark), "networkpolicies", "deployments")).
		To(BeTrue(), "the proxy went out first:\n%s", op.writes(mark))
	s.Read(policy)
	s.Owns(policy, "mcpserver.freehold.dev/children", "spec.podSelector", "spec.ingress", "spec.policyTypes")
	Expect(callers(s, policy)).To(HaveEach(HavePrefix("echo-proxy-")))
	Expect(callers(s, policy)).NotTo(BeEmpty())

	quiet(op)
	s.Force(intruder, ingress)
	s.Await(policy, "what another manager opened is closed", func() error {
		if len(policy.Spec.Ingress[0].From) == 0 || len(policy.Spec.PodSelector.MatchLabels) == 0 {
			return fmt.Errorf("the spec is %v", policy.Spec)
		}
		return nil
	})
	s.Delete(policy)
	s.Await(policy, "it is back", func() error { return nil })

	generation := rolledOut(s, "echo", 2).Status.Workload.Generation
	s.Apply(git, server("echo", allTools+"\nnetwork: {backendIngress: Any}"))
	s.AwaitGone(policy)
	live := serverOf(s, "echo")
	s.Await(live, "it is said", func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionBackendExposed)
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "Service echo-backend") {
			return fmt.Errorf("the condition is %v", c)
		}
		return nil
	})
	s.Apply(git, server("echo", allTools))
	s.Await(policy, "it is back", func() error { return nil })
	s.Await(live, "nothing is said", func() error {
		if c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionBackendExposed); c != nil {
			return fmt.Errorf("the condition is %v", c)
		}
		return nil
	})
	Expect(ready(s, "echo").Status.Workload.Generation).To(Equal(generation), "a NetworkPolicy replaces no pod")

	s.Apply(git, server("echo", ""))
	s.AwaitGone(policy)
	Expect(meta.FindStatusCondition(ready(s, "echo").Status.Conditions, v1alpha1.ConditionPolicyUnmatched)).To(BeNil())
})

// order reports whether the first write to the one kind is before the first to the other.
func order(writes kit.Log, first, second string) bool {
	for _, w := range writes {
		switch w.Resource {
		case first:
			return true
		case second:
			return false
		}
	}
	return false
}

// callers are the pods of the namespace that the policy lets connect to each backend pod of the server, as a network
// plugin judges: whoever a policy selects is reached by those alone that a rule of one names
// (https://kubernetes.io/docs/concepts/services-networking/network-policies).
func callers(s *kit.Env, policy *networkingv1.NetworkPolicy) []string {
	GinkgoHelper()
	pods := &corev1.PodList{}
	s.Must(s.Client.List(s.Ctx, pods, client.InNamespace(s.Namespace)), "listing pods")
	selects := func(selector *metav1.LabelSelector, pod corev1.Pod) bool {
		by, err := metav1.LabelSelectorAsSelector(selector)
		s.Must(err, "reading a selector")
		return by.Matches(labels.Set(pod.Labels))
	}
	backends, others := 0, 0
	var names []string
	for _, pod := range pods.Items {
		isBackend := pod.Labels[workload.LabelServer] == "echo" &&
			pod.Labels[workload.LabelComponent] == workload.ComponentBackend
		Expect(selects(&policy.Spec.PodSelector, pod)).To(Equal(isBackend), "whether it guards %s", pod.Name)
		if isBackend {
			backends++
		}
		if pod.Labels[workload.LabelServer] != "echo" {
			others++
		}
		for _, rule := range policy.Spec.Ingress {
			for _, peer := range rule.From {
				Expect(peer.NamespaceSelector).To(BeNil())
				Expect(peer.IPBlock).To(BeNil())
				if selects(peer.PodSelector, pod) {
					names = append(names, pod.Name)
				}
			}
		}
	}
	Expect(policy.Spec.PolicyTypes).To(Equal([]networkingv1.PolicyType{networkingv1.PolicyTypeIngress}))
	Expect(backends).To(BeNumerically(">", 0), "there is no backend pod")
	Expect(others).To(BeNumerically(">", 1), "there is no pod of another server")
	return names
}
