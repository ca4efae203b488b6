package v1alpha1

// BackendIngress is who may connect to the backend pods.
// +kubebuilder:validation:Enum=ProxyOnly;Any
type BackendIngress string

const (
	// BackendIngressProxyOnly is the server's own proxy pods.
	BackendIngressProxyOnly BackendIngress = "ProxyOnly"
	// BackendIngressAny is whoever reaches them.
	BackendIngressAny BackendIngress = "Any"
)

// NetworkSpec says who may connect to the pods of a server.
type NetworkSpec struct {
	// backendIngress says who may connect to the backend pods, whose Services do
	// not check tokens and policies. With ProxyOnly only the proxy pods of this
	// server may: Freehold makes a NetworkPolicy that says so, and the cluster's
	// network plugin enforces it, if it enforces NetworkPolicies. With Any
	// Freehold makes none. The default is ProxyOnly for a server with
	// oidcConfigRef, authzConfig or authzConfigRef, and Any for every other one.
	// +optional
	BackendIngress BackendIngress `json:"backendIngress,omitempty"`
}
