package v1alpha1

// ProxyHTTPRoute is how Gateways lead clients to the proxy.
type ProxyHTTPRoute struct {
	// parentRefs are the Gateways that are to take the HTTPRoute.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ParentRefs []RouteParent `json:"parentRefs"`

	// hostnames are the host names under which clients call, without wildcards. The first
	// is that of status.publicURL where proxy.publicURL is not set. Each changes what the
	// proxy answers to, which replaces its pods, but for the host of proxy.publicURL.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(h, h.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="hostnames are host names in lower case without scheme, port, path or wildcard: write for example mcp.example.com"
	Hostnames []string `json:"hostnames"`

	// path is the path below which the server is published: clients call it followed by
	// spec.path, and the Gateway removes it. The default is none, so that clients call
	// spec.path. Write for example /echo where several servers have one host name.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9._~-]+)+$') && !self.matches('/[.][.]?(/|$)')",message="path must begin with /, not end with one, and hold only letters, digits and . _ ~ / -: write for example /echo"
	Path string `json:"path,omitempty"`
}

// RouteParent names a Gateway, as the parentRefs of an HTTPRoute do.
type RouteParent struct {
	// group of the object. The default is gateway.networking.k8s.io.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// kind of the object. The default is Gateway.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// namespace of the object. The default is that of this object. The listener of a
	// Gateway in another namespace has to allow routes from here (allowedRoutes).
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// sectionName is the name of a listener of the Gateway. The default is each that fits.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`

	// port is the port of listeners of the Gateway. The default is any.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}
