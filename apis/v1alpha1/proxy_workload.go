package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ProxyWorkloadSpec is what the specs of all kinds with a proxy have.
// +kubebuilder:validation:XValidation:rule="!(has(self.authzConfig) && has(self.authzConfigRef))",message="authzConfig and authzConfigRef exclude each other: keep one of them"
type ProxyWorkloadSpec struct {
	// path is the HTTP path at which clients call the proxy. The default is /mcp. The
	// image of an MCPServer answers MCP at the same path; with transport sse it is the
	// path of its stream of events, often /sse.
	// +optional
	// +default="/mcp"
	// +kubebuilder:default="/mcp"
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[A-Za-z0-9._~/-]*$')",message="path must begin with / and hold only letters, digits and . _ ~ / -: write for example /mcp"
	// +kubebuilder:validation:XValidation:rule="!self.matches('//|/[.][.]?(/|$)')",message="path must hold no //, /./ or /../, which proxies and browsers rewrite: write for example /mcp"
	Path string `json:"path,omitempty"`

	// proxy configures the proxy. All calls go through it.
	// +optional
	// +default={}
	// +kubebuilder:default={}
	Proxy *ProxySpec `json:"proxy,omitempty"`

	// oidcConfigRef names the MCPOIDCConfig that says who may call. The proxy refuses
	// calls without a token that it accepts, and tells clients where to log in.
	// Where unset the proxy asks for no token.
	// +optional
	OIDCConfigRef *OIDCConfigReference `json:"oidcConfigRef,omitempty"`

	// authzConfigRef names the MCPAuthzConfig that says what callers may do. The
	// proxy enforces it.
	// +optional
	AuthzConfigRef *LocalReference `json:"authzConfigRef,omitempty"`

	// authzConfig says what callers may do. The proxy enforces it. Without it,
	// whoever reaches the proxy may do everything.
	// +optional
	AuthzConfig *AuthzConfig `json:"authzConfig,omitempty"`

	// groupRef names the MCPGroup to which the server belongs. Joining and leaving restart
	// nothing. A group that does not exist changes nothing for the server.
	// +optional
	GroupRef *LocalReference `json:"groupRef,omitempty"`

	// suspend stops the proxy, and the backend of an MCPServer once calls in flight
	// have ended. The objects stay. The default is false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// restartedAt is a time in RFC 3339, for example 2026-05-06T07:08:09Z. Changing it
	// replaces the pods of the proxy, and of the backend of an MCPServer: by the strategy
	// Successive those of the backend go when their sessions have ended, so set
	// rollout.sessionsEnd to 0s where they have to go at once. It may stay in Git afterwards.
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// progressDeadlineSeconds is how many seconds the object may go without progress
	// before the condition Stalled says why. The default is 600. It is a fifth of that
	// for causes that only repeat, such as an image that cannot be pulled. Progress
	// clears Stalled. At most 3600: so long an object keeps others waiting that take a
	// changed configuration after it.
	// +optional
	// +default=600
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 3600",message="write how many seconds may pass, 1 to 3600"
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// ProxyWorkloadStatus is what the status of all kinds with a proxy has.
type ProxyWorkloadStatus struct {
	// observedGeneration is the metadata.generation for which the conditions
	// hold. -1 means that the operator has not seen the object yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say whether calls reach the MCP server, and if not, why. Ready is True
	// once they go through the content of spec and MCP has answered; docs/conditions.md
	// lists every type and reason.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=64
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is how the workload fares, for programs: Ready says it in words. It is absent before the first report.
	// +optional
	Phase WorkloadPhase `json:"phase,omitempty"`

	// workload is the content that the proxy is to run, and the backend of an MCPServer,
	// by number and hash.
	// +optional
	Workload *WorkloadStatus `json:"workload,omitempty"`

	// servedGeneration is the highest workload generation that has served: its pods had
	// replaced all others, and MCP had answered through them. What goes wrong later does
	// not change it. It is absent before the first.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ServedGeneration int64 `json:"servedGeneration,omitempty"`

	// runtime is what the proxy learned from the MCP server.
	// +optional
	Runtime *RuntimeStatus `json:"runtime,omitempty"`

	// url is the URL that clients in the cluster call.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`

	// publicURL is the URL that clients outside the cluster call: spec.proxy.publicURL, or
	// else that of spec.proxy.httpRoute, followed by spec.path. It is absent where the spec
	// has neither.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	PublicURL string `json:"publicURL,omitempty"`
}

// GetProxySpec is what the spec shares with those of the other kinds with a proxy.
func (s *MCPServer) GetProxySpec() *ProxyWorkloadSpec { return &s.Spec.ProxyWorkloadSpec }

// GetProxyStatus is what the status shares with those of the other kinds with a proxy.
func (s *MCPServer) GetProxyStatus() *ProxyWorkloadStatus { return &s.Status.ProxyWorkloadStatus }

// GetProxySpec is what the spec shares with those of the other kinds with a proxy.
func (p *MCPRemoteProxy) GetProxySpec() *ProxyWorkloadSpec { return &p.Spec.ProxyWorkloadSpec }

// GetProxyStatus is what the status shares with those of the other kinds with a proxy.
func (p *MCPRemoteProxy) GetProxyStatus() *ProxyWorkloadStatus { return &p.Status.ProxyWorkloadStatus }
