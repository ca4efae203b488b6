package integration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	toOther = `
network:
  egress:
  - to: [{podSelector: {matchLabels: {freehold.dev/server: other, app.kubernetes.io/component: proxy}}}]
    ports: [{port: 8000}]
  - to: [{ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.128/25]}}]
    ports: [{port: 443}, {protocol: UDP, port: 3000, endPort: 3010}]`
	everywhere = "\nnetwork: {egress: [{to: [{namespaceSelector: {}}], ports: [{port: 8000}]}, {to: [{podSelector: " +
		"{}}], ports: [{port: 9000}]}]}"
	nowhere    = "\nnetwork: {egress: []}"
	unlabelled = "team-elsewhere"
)

var _ = It("A server's pods connect to DNS and to what spec.network.egress names", func() {
	s := newEnv()
	op := operate(s)
	s.RunProxies()
	policy := &networkingv1.NetworkPolicy{ObjectMeta: called("echo-backend")}
	s.Apply(git, server("other", ""))
	s.Apply(git, server("echo", ""))
	ready(s, "other")
	generation := ready(s, "echo").Status.Workload.Generation
	Expect(s.Exists(policy)).To(BeFalse())

	becomes := func(spec string, reaches map[string][]string, types ...networkingv1.PolicyType) {
		GinkgoHelper()
		s.Apply(git, server("echo", spec))
		s.Await(policy, "the network is as the spec says", func() error {
			if !slices.Equal(policy.Spec.PolicyTypes, types) {
				return fmt.Errorf("it is about %v", policy.Spec.PolicyTypes)
			}
			for port, want := range reaches {
				if got := reached(s, policy, port); fmt.Sprint(got) != fmt.Sprint(want) {
					return fmt.Errorf("at %s it lets pods reach %q, want %q", port, got, want)
				}
			}
			return nil
		})
	}
	// Pods are replaced meanwhile, so each is named by its Deployment or StatefulSet.
	all := []string{
		"echo-backend", "echo-proxy", "other-backend", "other-proxy", unlabelled, "203.0.113.7",
		"203.0.113.200",
	}
	own := all[:4]

	becomes(toOther, map[string][]string{
		"UDP/53": all, "TCP/53": all, "TCP/8000": {"other-proxy"},
		"TCP/443": {"203.0.113.7"}, "UDP/3010": {"203.0.113.7"}, "UDP/3011": nil, "TCP/3010": nil, "TCP/80": nil,
	}, networkingv1.PolicyTypeEgress)
	s.Owns(policy, "mcpserver.freehold.dev/children", "spec.podSelector", "spec.egress", "spec.policyTypes")
	quiet(op)
	mark := op.requests.Mark()
	op.restart()
	quiet(op)
	Expect(op.writes(mark)).To(BeEmpty(), "what the API server fills in is a difference:\n%s", op.writes(mark))

	becomes(nowhere, map[string][]string{"UDP/53": all, "TCP/8000": nil, "TCP/443": nil}, networkingv1.PolicyTypeEgress)
	becomes(everywhere, map[string][]string{"TCP/8000": all[:5], "TCP/9000": own, "TCP/443": nil},
		networkingv1.PolicyTypeEgress)
	Expect(ready(s, "echo").Status.Workload.Generation).To(Equal(generation), "a NetworkPolicy replaces no pod")
	becomes(nowhere+allTools, map[string][]string{"TCP/8000": nil}, networkingv1.PolicyTypeIngress,
		networkingv1.PolicyTypeEgress)
	s.Apply(git, server("echo", ""))
	s.AwaitGone(policy)
})

// reached are the workloads and addresses that a pod of the backend of echo may connect to at this port, as a network
// plugin judges (https://kubernetes.io/docs/concepts/services-networking/network-policies).
func reached(s *kit.Env, policy *networkingv1.NetworkPolicy, at string) []string {
	GinkgoHelper()
	var protocol corev1.Protocol
	var port int32
	_, err := fmt.Sscanf(at, "%3s/%d", &protocol, &port)
	s.Must(err, "reading a port")
	var names []string
	for _, place := range places(s) {
		if slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
			return (len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
				last := p.Port.IntVal
				if p.EndPort != nil {
					last = *p.EndPort
				}
				return *p.Protocol == protocol && p.Port.IntVal <= port && port <= last
			})) && (len(rule.To) == 0 || slices.ContainsFunc(rule.To,
				func(peer networkingv1.NetworkPolicyPeer) bool { return place.matches(s, peer) }))
		}) {
			names = append(names, place.name)
		}
	}
	return slices.Compact(names)
}

// place is a pod, or an address outside the cluster.
type place struct {
	name                         string
	address                      netip.Addr
	own                          bool
	labels, labelsOfItsNamespace labels.Set
}

// places are the pods of the namespace, each by its workload, one of another, and two addresses.
func places(s *kit.Env) []place {
	GinkgoHelper()
	pods, namespace := &corev1.PodList{}, &corev1.Namespace{}
	s.Must(s.Client.List(s.Ctx, pods, client.InNamespace(s.Namespace)), "listing pods")
	s.Must(s.Client.Get(s.Ctx, client.ObjectKey{Name: s.Namespace}, namespace), "reading the namespace")
	var all []place
	for _, pod := range pods.Items {
		name := pod.Labels[workload.LabelServer] + "-" + pod.Labels[workload.LabelComponent]
		all = append(all, place{name: name, own: true, labels: pod.Labels, labelsOfItsNamespace: namespace.Labels})
	}
	slices.SortFunc(all, func(a, b place) int { return strings.Compare(a.name, b.name) })
	return append(all,
		place{name: unlabelled, labelsOfItsNamespace: labels.Set{corev1.LabelMetadataName: unlabelled}},
		place{name: "203.0.113.7", address: netip.MustParseAddr("203.0.113.7")},
		place{name: "203.0.113.200", address: netip.MustParseAddr("203.0.113.200")})
}

func (p place) matches(s *kit.Env, peer networkingv1.NetworkPolicyPeer) bool {
	GinkgoHelper()
	selects := func(selector *metav1.LabelSelector, set labels.Set) bool {
		by, err := metav1.LabelSelectorAsSelector(selector)
		s.Must(err, "reading a selector")
		return by.Matches(set)
	}
	if peer.IPBlock != nil {
		within := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(p.address) }
		return p.address.IsValid() && within(peer.IPBlock.CIDR) && !slices.ContainsFunc(peer.IPBlock.Except, within)
	}
	switch {
	case p.address.IsValid():
		return false
	case peer.NamespaceSelector == nil && !p.own,
		peer.NamespaceSelector != nil && !selects(peer.NamespaceSelector, p.labelsOfItsNamespace):
		return false
	}
	return peer.PodSelector == nil || selects(peer.PodSelector, p.labels)
}
