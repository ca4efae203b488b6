package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Transport is how the user's image speaks MCP.
// +kubebuilder:validation:Enum=streamable-http;sse;stdio
type Transport string

// The transports of https://modelcontextprotocol.io/specification/2025-11-25/basic/transports,
// and the deprecated HTTP+SSE of revision 2024-11-05.
const (
	TransportStreamableHTTP Transport = "streamable-http"
	TransportSSE            Transport = "sse"
	TransportStdio          Transport = "stdio"
)

// MCPServerSpec is what the user wants. Several managers may own parts of it:
// Git most of it, an autoscaler replicas, an authorization controller
// authzConfig. Freehold's own managers own nothing of it.
// +kubebuilder:validation:XValidation:rule="self.transport != 'stdio' || (has(self.command) && size(self.command) > 0)",message="transport stdio needs command: write the program that speaks MCP on its standard input and output, for example command: [\"/server\"]"
// +kubebuilder:validation:XValidation:rule="!(has(self.authzConfig) && has(self.authzConfigRef))",message="authzConfig and authzConfigRef exclude each other: keep one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.env) || self.env.all(e, !(has(e.value) && has(e.valueFrom)))",message="an env item has either value or valueFrom: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.proxy) || !has(self.proxy.port) || self.proxy.port != self.port",message="port and proxy.port must differ: port is where the image listens, proxy.port is where clients call"
type MCPServerSpec struct {
	// image is the container image of the MCP server, written as
	// https://github.com/distribution/reference has it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*:[0-9a-fA-F]{32,})?$')",message="image must be an image reference without scheme, spaces or template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3"
	Image string `json:"image"`

	// command replaces the image's entrypoint. Required for transport stdio.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=131072
	Command []string `json:"command,omitempty"`

	// args are the arguments of the command or of the image's entrypoint.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=131072
	Args []string `json:"args,omitempty"`

	// env are environment variables of the server.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom takes all keys of ConfigMaps and Secrets as environment variables.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// transport is how the image speaks MCP. This version serves only
	// streamable-http; with another one the server is not ready, with reason
	// TransportNotServed.
	// +optional
	// +default="streamable-http"
	// +kubebuilder:default="streamable-http"
	Transport Transport `json:"transport,omitempty"`

	// port is the TCP port on which the image listens, 1 to 65535.
	// +optional
	// +default=8080
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// path is the HTTP path of the MCP endpoint, at the image and at the proxy.
	// +optional
	// +default="/mcp"
	// +kubebuilder:default="/mcp"
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[A-Za-z0-9._~/-]*$')",message="path must begin with / and hold only letters, digits and . _ ~ / -: write for example /mcp"
	// +kubebuilder:validation:XValidation:rule="!self.matches('//|/[.][.]?(/|$)')",message="path must hold no //, /./ or /../, which proxies and browsers rewrite: write for example /mcp"
	Path string `json:"path,omitempty"`

	// replicas is the number of backend pods. Leave it out of Git where an
	// autoscaler sets it. With 0 the proxy stops, too.
	// +optional
	// +default=1
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// resources of the server's container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// volumes of the backend pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(v, !has(v.hostPath))",message="hostPath volumes are not allowed: use a persistentVolumeClaim, emptyDir, configMap or secret"
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// volumeMounts of the server's container.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=64
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// imagePullPolicy of the server's image. Where unset it is Always for the tag
	// latest or no tag, and IfNotPresent for others.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets name Secrets with credentials of the image's registry.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// serviceAccountName is the identity of the backend pods. Where unset the
	// pods get no API token. A name that ends in -runner is refused, because the
	// accounts of Freehold's runners have such names.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="serviceAccountName must be the name of a ServiceAccount of this namespace, of lower-case letters, digits, - and .: write for example echo, or leave the field out"
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('-runner')",message="accounts that end in -runner are those of Freehold's runners: choose another"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// podTemplate is a PodTemplateSpec that is merged into the backend's pod
	// template, for what the other fields cannot say. The container of the image
	// is called server. What Freehold states is refused here, except
	// runAsNonRoot, the seccomp profile, and the securityContext of the container
	// server. So is what breaks the baseline Pod Security Standard.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`

	// proxy configures the proxy in front of the server.
	// +optional
	// +default={}
	// +kubebuilder:default={}
	Proxy *ProxySpec `json:"proxy,omitempty"`

	// groupRef names the MCPGroup that this server is a member of. It has no
	// effect yet.
	// +optional
	GroupRef *LocalReference `json:"groupRef,omitempty"`

	// oidcConfigRef names the MCPOIDCConfig that says who may call. This version
	// does not enforce it: while it is set, every call is refused.
	// +optional
	OIDCConfigRef *LocalReference `json:"oidcConfigRef,omitempty"`

	// toolConfigRef names the MCPToolConfig that says which tools are shown. This
	// version does not enforce it: while it is set, every call is refused.
	// +optional
	ToolConfigRef *LocalReference `json:"toolConfigRef,omitempty"`

	// externalAuthConfigRef names the MCPExternalAuthConfig that says what the
	// proxy presents to the backend. This version does not enforce it: while it
	// is set, every call is refused.
	// +optional
	ExternalAuthConfigRef *LocalReference `json:"externalAuthConfigRef,omitempty"`

	// authzConfigRef names the MCPAuthzConfig that says what may be called. This
	// version does not enforce it: while it is set, every call is refused.
	// +optional
	AuthzConfigRef *LocalReference `json:"authzConfigRef,omitempty"`

	// authzConfig says inline what may be called, as Cedar policies that the proxy
	// enforces.
	// +optional
	AuthzConfig *AuthzConfig `json:"authzConfig,omitempty"`

	// suspend stops the proxy, and the backend once calls have ended. The
	// server's objects stay.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// restartedAt is a time, for example 2026-05-06T07:08:09Z. The pods of proxy
	// and backend are replaced when it changes; it may stand in Git.
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// progressDeadlineSeconds is how long the server may go without progress
	// towards Ready before the condition Stalled says why, in seconds. Where only
	// a retry of the same can follow, as for an image that cannot be pulled, it is
	// a fifth of that. Stalled goes by itself once there is progress.
	// +optional
	// +default=600
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// ProxySpec configures the proxy in front of a server.
type ProxySpec struct {
	// replicas is the number of proxy pods.
	// +optional
	// +default=1
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// port is the TCP port of the proxy and of its Service, 1024 to 65535
	// without 9440, where the proxy answers probes.
	// +optional
	// +default=8000
	// +kubebuilder:default=8000
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self != 9440",message="port 9440 is where the proxy answers probes: choose another port"
	Port int32 `json:"port,omitempty"`

	// publicURL is where clients outside the cluster reach the proxy. The proxy
	// takes its host for one of the server's names where it checks Host and
	// Origin. Freehold makes no Ingress or Gateway for it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="publicURL must be an absolute URL: write for example https://mcp.example.com/echo"
	PublicURL string `json:"publicURL,omitempty"`

	// allowedOrigins are the origins whose pages may call from a browser: values
	// of the Origin header, for example https://app.example.com. Requests without
	// that header are let in, too.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.all(o, o.matches('^[a-z][a-z0-9+.-]*://([a-z0-9._-]+|[[][0-9a-f:.]+[]])(:[0-9]+)?$'))",message="allowedOrigins are compared with what browsers send, byte for byte: write each in lower case, with its scheme and without path or wildcard, for example https://app.example.com"
	AllowedOrigins []string `json:"allowedOrigins,omitempty"`

	// trustForwardedHeaders passes on the X-Forwarded-* headers of a request.
	// Set it only behind a load balancer that removes those of its clients.
	// +optional
	TrustForwardedHeaders bool `json:"trustForwardedHeaders,omitempty"`

	// service configures the Service in front of the proxy.
	// +optional
	Service *ProxyService `json:"service,omitempty"`

	// resources of the proxy's container. Where unset its memory limit is 256 MiB.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// podTemplate is merged into the proxy's pod template, as podTemplate of the
	// spec is into the backend's. The container of Freehold is called proxy.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`
}

// ProxyService configures the Service in front of the proxy.
type ProxyService struct {
	// type of the Service.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// labels are added to the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}
