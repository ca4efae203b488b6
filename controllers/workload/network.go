package workload

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// Guarded reports whether the spec asks the proxy to authenticate or authorize calls.
func Guarded(spec *v1alpha1.MCPServerSpec) bool {
	return spec.AuthzConfig != nil || registry.Guards(spec)
}

// BackendIngress is who may connect to the backend pods. An unknown value of a later release is ProxyOnly, the
// strictest. defaults are the release's, nil for none.
func BackendIngress(spec *v1alpha1.MCPServerSpec, defaults *v1alpha1.NetworkSpec) v1alpha1.BackendIngress {
	asked := v1alpha1.BackendIngressAny
	switch {
	case spec.Network != nil && spec.Network.BackendIngress != "":
		asked = spec.Network.BackendIngress
	case Guarded(spec):
		asked = v1alpha1.BackendIngressProxyOnly
	case defaults != nil && defaults.BackendIngress != "":
		asked = defaults.BackendIngress
	}
	if asked == v1alpha1.BackendIngressAny {
		return asked
	}
	return v1alpha1.BackendIngressProxyOnly
}

// egress is what the backend pods may connect to besides DNS, nil for everything.
func egress(spec *v1alpha1.MCPServerSpec, defaults *v1alpha1.NetworkSpec) []v1alpha1.EgressRule {
	if spec.Network != nil && spec.Network.Egress != nil {
		return spec.Network.Egress
	}
	return cmp.Or(defaults, &v1alpha1.NetworkSpec{}).Egress
}

// BackendNetworkPolicy lets only the server's proxy pods connect to its backend pods, on every port, and those only
// to what the spec names; kubelet's probes are always allowed
// (https://kubernetes.io/docs/concepts/services-networking/network-policies). It is nil if it would allow everything,
// or without a backend. It is not content: other pods of the same content enforce nothing new.
func BackendNetworkPolicy(
	object kinds.Object, release podtemplate.Release,
) *networkingv1ac.NetworkPolicyApplyConfiguration {
	server, ok := object.(*v1alpha1.MCPServer)
	if !ok {
		return nil
	}
	owner := OwnerWith(server, release.Objects)
	closed, rules := BackendIngress(&server.Spec, release.Network) == v1alpha1.BackendIngressProxyOnly,
		egress(&server.Spec, release.Network)
	if !closed && rules == nil {
		return nil
	}
	components := metav1ac.LabelSelectorRequirement().WithKey(LabelComponent).WithOperator(metav1.LabelSelectorOpIn)
	for _, slot := range Slots {
		components.WithValues(slot.Component())
	}
	spec := networkingv1ac.NetworkPolicySpec().WithPodSelector(metav1ac.LabelSelector().
		WithMatchLabels(map[string]string{LabelServer: owner.Key()}).WithMatchExpressions(components))
	if closed {
		spec.WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(networkingv1ac.NetworkPolicyIngressRule().
				WithFrom(networkingv1ac.NetworkPolicyPeer().WithPodSelector(
					metav1ac.LabelSelector().WithMatchLabels(Selector(owner.Key(), ComponentProxy)))))
	}
	if rules != nil {
		spec.WithPolicyTypes(networkingv1.PolicyTypeEgress).WithEgress(dns())
		for _, rule := range rules {
			spec.WithEgress(egressRule(rule, owner.Namespace))
		}
	}
	return child(networkingv1ac.NetworkPolicy(BackendName(owner.Key()), owner.Namespace), owner, ComponentBackend).
		WithSpec(spec)
}

// dns allows DNS to any resolver: in pods, on each node or outside.
func dns() *networkingv1ac.NetworkPolicyEgressRuleApplyConfiguration {
	const port = 53
	rule := networkingv1ac.NetworkPolicyEgressRule()
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		rule.WithPorts(networkingv1ac.NetworkPolicyPort().WithProtocol(protocol).WithPort(intstr.FromInt32(port)))
	}
	return rule
}

func egressRule(rule v1alpha1.EgressRule, namespace string) *networkingv1ac.NetworkPolicyEgressRuleApplyConfiguration {
	out := networkingv1ac.NetworkPolicyEgressRule()
	for _, peer := range rule.To {
		out.WithTo(egressPeer(peer, namespace))
	}
	for _, p := range rule.Ports {
		port := networkingv1ac.NetworkPolicyPort().
			WithProtocol(cmp.Or(corev1.Protocol(p.Protocol), corev1.ProtocolTCP)).WithPort(intstr.FromInt32(p.Port))
		if p.EndPort != 0 {
			port.WithEndPort(p.EndPort)
		}
		out.WithPorts(port)
	}
	return out
}

// egressPeer expresses {} differently, because an intent carries no empty object. A namespace selector alone selects
// all pods, and each namespace has a label with its name
// (https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name).
func egressPeer(peer v1alpha1.EgressPeer, namespace string) *networkingv1ac.NetworkPolicyPeerApplyConfiguration {
	out := networkingv1ac.NetworkPolicyPeer()
	if peer.IPBlock != nil {
		return out.WithIPBlock(networkingv1ac.IPBlock().WithCIDR(peer.IPBlock.CIDR).WithExcept(peer.IPBlock.Except...))
	}
	pods, namespaces := selector(peer.PodSelector), selector(peer.NamespaceSelector)
	switch {
	case peer.NamespaceSelector != nil && namespaces == nil:
		namespaces = metav1ac.LabelSelector().WithMatchExpressions(
			metav1ac.LabelSelectorRequirement().WithKey(corev1.LabelMetadataName).WithOperator(metav1.LabelSelectorOpExists))
	case pods == nil && namespaces == nil:
		namespaces = metav1ac.LabelSelector().WithMatchLabels(map[string]string{corev1.LabelMetadataName: namespace})
	}
	out.PodSelector, out.NamespaceSelector = pods, namespaces
	return out
}

// selector is nil for one that matches everything.
func selector(of *metav1.LabelSelector) *metav1ac.LabelSelectorApplyConfiguration {
	if of == nil || len(of.MatchLabels) == 0 && len(of.MatchExpressions) == 0 {
		return nil
	}
	out := metav1ac.LabelSelector()
	if len(of.MatchLabels) > 0 {
		out.WithMatchLabels(of.MatchLabels)
	}
	for _, e := range of.MatchExpressions {
		out.WithMatchExpressions(metav1ac.LabelSelectorRequirement().WithKey(e.Key).WithOperator(e.Operator).
			WithValues(e.Values...))
	}
	return out
}
