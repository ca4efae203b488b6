package workload

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Guarded reports whether the spec asks the proxy to check who calls, or what.
func Guarded(spec *v1alpha1.MCPServerSpec) bool {
	return spec.OIDCConfigRef != nil || spec.AuthzConfig != nil || spec.AuthzConfigRef != nil
}

// BackendIngress is who may connect to the backend pods.
func BackendIngress(spec *v1alpha1.MCPServerSpec) v1alpha1.BackendIngress {
	switch {
	case spec.Network != nil && spec.Network.BackendIngress != "":
		return spec.Network.BackendIngress
	case Guarded(spec):
		return v1alpha1.BackendIngressProxyOnly
	}
	return v1alpha1.BackendIngressAny
}

// BackendNetworkPolicy lets only the server's proxy pods connect to its backend
// pods, on every port; kubelet's probes are always let in
// (https://kubernetes.io/docs/concepts/services-networking/network-policies). It is
// nil where anyone may, or where there is no backend. It is no content: other pods of the same content enforce
// nothing new.
func BackendNetworkPolicy(server *v1alpha1.MCPServer) *networkingv1ac.NetworkPolicyApplyConfiguration {
	owner := OwnerOf(server)
	if !owner.Backend || BackendIngress(&server.Spec) != v1alpha1.BackendIngressProxyOnly {
		return nil
	}
	pods := func(component string) *metav1ac.LabelSelectorApplyConfiguration {
		return metav1ac.LabelSelector().WithMatchLabels(Selector(owner.Key(), component))
	}
	return networkingv1ac.NetworkPolicy(BackendName(owner.Key()), owner.Namespace).
		WithLabels(Labels(owner.Key(), ComponentBackend)).
		WithOwnerReferences(owner.reference()).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(pods(ComponentBackend)).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(networkingv1ac.NetworkPolicyIngressRule().
				WithFrom(networkingv1ac.NetworkPolicyPeer().WithPodSelector(pods(ComponentProxy)))))
}
