package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ProxySpec configures the proxy in front of a server.
type ProxySpec struct {
	// replicas is the number of proxy pods, from 0 to 100. Unset means the chart's
	// proxyDefaults.replicas, which is 1 unless an administrator sets it. With
	// 0 nothing answers clients, while the backend of an MCPServer keeps running.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 100",message="write how many pods there are to be, 0 to 100"
	Replicas *int32 `json:"replicas,omitempty"`

	// port is the TCP port of the proxy and of its Service, from 1024 to 65535.
	// The default is 8000. It must differ from 9440, where the proxy answers probes.
	// +optional
	// +default=8000
	// +kubebuilder:default=8000
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self >= 1024 && self <= 65535",message="write a port that needs no root, 1024 to 65535"
	// +kubebuilder:validation:XValidation:rule="self != 9440",message="port 9440 is where the proxy answers probes: choose another port"
	Port int32 `json:"port,omitempty"`

	// publicURL is the URL under which clients outside the cluster reach the
	// proxy, for example https://echo.example.com; they call it followed by
	// spec.path. A path in it is one that your Ingress or Gateway removes: the proxy
	// answers at spec.path only. With httpRoute the default is https, its first host name
	// and its path. Set it if clients use a host name that is neither of that nor
	// one of the Service NAME-proxy: under any other name the proxy answers 421
	// to every GET, by which clients open event streams, and to every call of a
	// browser page of that host, because an attacker's name may have been rebound
	// to this address. With spec.oidcConfigRef the URL followed by spec.path is also
	// what clients read as the server's own, and the default of the tokens' audience.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="publicURL must be an absolute URL: write for example https://mcp.example.com/echo"
	PublicURL string `json:"publicURL,omitempty"`

	// httpRoute makes an HTTPRoute of the Gateway API, NAME-proxy, which leads clients to
	// the proxy: their calls, and what they ask for before a login. Where the cluster does
	// not serve HTTPRoutes, or no Gateway takes it, the condition Published is False. An
	// Ingress is yours to write.
	// +optional
	HTTPRoute *ProxyHTTPRoute `json:"httpRoute,omitempty"`

	// allowedOrigins are the origins of web pages that may call from a browser,
	// as the browser writes them into the Origin header, for example
	// https://app.example.com. Calls from pages of any other origin get 403,
	// unless the page is the proxy's own. Requests that no browser sent have no
	// Origin header, and this field does not restrict them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.all(o, o.matches('^[a-z][a-z0-9+.-]*://([a-z0-9._-]+|[[][0-9a-f:.]+[]])(:[0-9]+)?$'))",message="allowedOrigins are compared with what browsers send, byte for byte: write each in lower case, with its scheme and without path or wildcard, for example https://app.example.com"
	AllowedOrigins []string `json:"allowedOrigins,omitempty"`

	// trustForwardedHeaders passes the headers X-Forwarded-* and Forwarded of a
	// request on to the backend. Set it only if a load balancer in front of the
	// proxy removes those that clients send. The default is false: the proxy
	// writes its own.
	// +optional
	TrustForwardedHeaders bool `json:"trustForwardedHeaders,omitempty"`

	// hostHeader is which Host the server sees, once the proxy has checked that of the
	// client. Localhost is localhost with the server's port, which servers take that
	// check Host, and the request has no Origin and no Sec-Fetch-* any more. Client is
	// what the client sent. The default is Localhost. X-Forwarded-Host has the
	// client's Host in both cases.
	// +optional
	HostHeader HostHeader `json:"hostHeader,omitempty"`

	// audit is whether the proxy logs a line for each decision of spec.authzConfig,
	// and for each caller that spec.oidcConfigRef keeps out: Enabled or Disabled. The
	// default is Enabled. A line has neither arguments nor tokens.
	// +optional
	// +default="Enabled"
	// +kubebuilder:default="Enabled"
	Audit Audit `json:"audit,omitempty"`

	// terminationGracePeriodSeconds is how many seconds a pod of the proxy has to end,
	// from 15 to 3600. The default is 60. All but the last 5 are for the calls on
	// their way: the first 5 of these also take new calls, until every node knows
	// that the pod ends. Raise it for tools that take longer.
	// +optional
	// +default=60
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=15
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:validation:XValidation:rule="self >= 15 && self <= 3600",message="write how many seconds calls get to end, 15 to 3600"
	TerminationGracePeriodSeconds int32 `json:"terminationGracePeriodSeconds,omitempty"`

	// probe is how the proxy asks the MCP server whether it answers still, once it has
	// answered. Where that fails, Ready is False, and says why. A server with stdio and a
	// process for each session is not asked: each question would start a process.
	// +optional
	Probe *ProxyProbe `json:"probe,omitempty"`

	// service configures the Service NAME-proxy, which clients call.
	// +optional
	Service *ProxyService `json:"service,omitempty"`

	// resources are the compute resources of the proxy's container. The default
	// is a memory limit of 256Mi with small requests; any value here replaces all
	// of it.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// podTemplate is a PodTemplateSpec that Freehold merges into the pod template
	// of the proxy, by the rules of spec.podTemplate and stricter ones that
	// protect the proxy's API token. The proxy's own container is called proxy.
	// All containers meet the restricted Pod Security Standard; that of an
	// MCPRemoteProxy adds none unless the chart's remoteProxies.allowContainers
	// is true.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`
}

// HostHeader is which Host a server sees.
// +kubebuilder:validation:Enum=Localhost;Client
type HostHeader string

// The values of spec.proxy.hostHeader.
const (
	HostLocalhost HostHeader = "Localhost"
	HostClient    HostHeader = "Client"
)

// Audit is whether decisions about callers are logged.
// +kubebuilder:validation:Enum=Enabled;Disabled
type Audit string

// The values of spec.proxy.audit.
const (
	AuditEnabled  Audit = "Enabled"
	AuditDisabled Audit = "Disabled"
)

// ProxyProbe is how the proxy asks an MCP server whether it answers still.
type ProxyProbe struct {
	// periodSeconds is how many seconds pass between two questions of a pod of the proxy,
	// up to 3600. The default is 30, and 300 for an MCPRemoteProxy. 0 asks none. A call of a
	// client that was answered since the last question is as good as one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 3600",message="write how many seconds pass between two questions, up to 3600, or 0 for no questions"
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is how many seconds an answer may take, from 1 to 9. The default is 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 9",message="write how many seconds an answer may take, 1 to 9"
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// failureThreshold is how many questions in a row may fail before Ready says so, from 1
	// to 10. The default is 3. After one that failed the next comes within 30 seconds. One
	// answer makes Ready True again.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 10",message="write how many questions in a row may fail, 1 to 10"
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// ProxyService configures the Service in front of the proxy.
type ProxyService struct {
	// type is the type of the Service: ClusterIP, NodePort or LoadBalancer. The
	// API server's default is ClusterIP.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// labels are added to the labels of the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && size(self[k]) <= 63)",message="a label has a name of at most 317 characters and a value of at most 63: shorten it"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the annotations of the Service, for example those
	// that a load balancer reads.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && size(self[k]) <= 65536)",message="an annotation has a name of at most 317 characters and a value of at most 65536: shorten it"
	Annotations map[string]string `json:"annotations,omitempty"`
}
