package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BackendIngress is who may connect to the backend pods.
// +kubebuilder:validation:Enum=ProxyOnly;Any
type BackendIngress string

const (
	// BackendIngressProxyOnly is the server's own proxy pods.
	BackendIngressProxyOnly BackendIngress = "ProxyOnly"
	// BackendIngressAny is whoever reaches them.
	BackendIngressAny BackendIngress = "Any"
)

// NetworkSpec says who may connect to the pods of a server, and what they may connect to.
type NetworkSpec struct {
	// backendIngress says who may connect to the backend pods, whose Services do
	// not check tokens and policies. With ProxyOnly only the proxy pods of this
	// server may: Freehold makes a NetworkPolicy that says so, and the cluster's
	// network plugin enforces it, if it enforces NetworkPolicies. With Any
	// Freehold does not restrict who connects. The default is ProxyOnly for a
	// server with oidcConfigRef, authzConfig or authzConfigRef, and for every other one what
	// the chart's networkDefaults.backendIngress says, else Any.
	// +optional
	BackendIngress BackendIngress `json:"backendIngress,omitempty"`

	// egress are the connections that the backend pods may open, as in a
	// NetworkPolicy: each rule allows those to one of to at one of ports. DNS, port 53
	// of UDP and TCP, is always allowed, and so are answers to whoever called. The
	// empty list [] allows nothing else. Freehold makes a NetworkPolicy that says so,
	// and the cluster's network plugin enforces it, if it enforces NetworkPolicies.
	// Without the field the chart's networkDefaults.egress counts, and where that is
	// unset, all connections are allowed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Egress []EgressRule `json:"egress,omitzero"`
}

// EgressRule allows connections to some places at some ports.
// +kubebuilder:validation:XValidation:rule="has(self.to) || has(self.ports)",message="a rule without to and ports would allow every connection: write to, ports or both, or leave egress out to allow all"
type EgressRule struct {
	// to are the places: one of them has to match. All match if it is not set.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	To []EgressPeer `json:"to,omitempty"`

	// ports are the ports there: one of them has to match. All match if it is not set.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Ports []EgressPort `json:"ports,omitempty"`
}

// EgressPeer is a range of addresses, or pods.
// +kubebuilder:validation:XValidation:rule="has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))",message="a place is either ipBlock, or podSelector and namespaceSelector: write one of them"
type EgressPeer struct {
	// podSelector matches pods by their labels: those of this namespace, or of the
	// namespaces of namespaceSelector. {} matches all.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`

	// namespaceSelector matches namespaces by their labels, and all pods in them if
	// podSelector is not set. {} matches all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// ipBlock matches addresses. Network plugins differ in whether it matches those of
	// pods and Services: select pods by labels.
	// +optional
	IPBlock *EgressBlock `json:"ipBlock,omitempty"`
}

// EgressBlock is a range of addresses with exceptions.
// +kubebuilder:validation:XValidation:rule="!has(self.except) || !isCIDR(self.cidr) || self.except.all(e, !isCIDR(e) || (cidr(self.cidr).containsCIDR(e) && cidr(self.cidr).prefixLength() < cidr(e).prefixLength()))",message="each item of except must be a smaller range within cidr: write for example cidr: 10.0.0.0/8 and except: [10.1.0.0/16]"
type EgressBlock struct {
	// cidr is a range of IPv4 or IPv6 addresses, for example 203.0.113.0/24.
	// +required
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="cidr must be a range of addresses that begins at its first one: write for example 203.0.113.0/24, or 203.0.113.7/32 for one address"
	CIDR string `json:"cidr"`

	// except are ranges within cidr that do not match.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="except must hold ranges of addresses that begin at their first one: write for example 203.0.113.128/25"
	Except []string `json:"except,omitempty"`
}

// EgressPort is a port or a range of ports.
// +kubebuilder:validation:XValidation:rule="!has(self.endPort) || self.endPort >= self.port",message="endPort must not be below port: write the last port of the range, or leave it out"
type EgressPort struct {
	// protocol is TCP, UDP or SCTP. The default is TCP.
	// +optional
	// +default="TCP"
	// +kubebuilder:default="TCP"
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol string `json:"protocol,omitempty"`

	// port is the port that the connection reaches, from 1 to 65535: that of the pod
	// where a Service is in between.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="write a port, 1 to 65535"
	Port int32 `json:"port"`

	// endPort is the last port of a range that begins at port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="write the last port of the range, 1 to 65535"
	EndPort int32 `json:"endPort,omitempty"`
}
