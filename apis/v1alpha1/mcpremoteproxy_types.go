package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemoteTransport is how a server that runs elsewhere speaks MCP.
// +kubebuilder:validation:Enum=streamable-http;sse
type RemoteTransport string

// MCPRemoteProxySpec is the desired state of a proxy in front of an MCP server that
// runs elsewhere. Freehold writes none of it.
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('https://') || (has(self.allowHTTP) && self.allowHTTP)",message="url must begin with https://: write https://, or set allowHTTP to true if calls and headers may cross the network unencrypted"
// +kubebuilder:validation:XValidation:rule="!has(self.caBundleRef) || self.url.startsWith('https://')",message="caBundleRef is for a url that begins with https://: write https://, or remove caBundleRef"
// +kubebuilder:validation:XValidation:rule="self.transport != 'sse' || !has(self.proxy) || !has(self.proxy.port) || self.proxy.port != 9442",message="port 9442 is where proxies in front of a server of transport sse call each other: choose another port in proxy.port"
// +kubebuilder:validation:XValidation:rule="!has(self.proxy) || !has(self.proxy.hostHeader)",message="a server elsewhere sees its own host, that of url: remove proxy.hostHeader"
type MCPRemoteProxySpec struct {
	ProxyWorkloadSpec `json:",inline"`

	// url is where the server answers MCP, for example https://mcp.example.com/mcp.
	// It has no user, query or fragment; credentials belong into headers. Redirects
	// are not followed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''",message="url must be an absolute URL: write for example https://mcp.example.com/mcp"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]+://[^/?#@]*(/[A-Za-z0-9._~/-]*)?$')",message="url must hold no user, query or fragment, and its path only letters, digits and . _ ~ / -: write for example https://mcp.example.com/mcp, and credentials into headers"
	URL string `json:"url"`

	// allowHTTP lets url begin with http://. Whoever is on the way then reads and
	// changes calls and headers. The default is false.
	// +optional
	AllowHTTP bool `json:"allowHTTP,omitempty"`

	// transport is how the server speaks MCP: streamable-http or sse. The default
	// is streamable-http. sse is the deprecated HTTP+SSE of revision 2024-11-05, of
	// which url names the stream of events. Clients call the proxy by streamable HTTP
	// whatever it is. Sessions with a server of sse are in a proxy's memory, and end
	// with its pod; its proxies call each other on port 9442.
	// +optional
	// +default="streamable-http"
	// +kubebuilder:default="streamable-http"
	Transport RemoteTransport `json:"transport,omitempty"`

	// allowedNetworks are networks to which the proxy may connect besides public
	// addresses, as CIDRs, for example 10.0.0.0/8 for a server in a private network,
	// or the address range of the cluster's Services. Without them it connects to
	// no private, loopback, link-local or metadata address, whatever name the url
	// has and however that is resolved.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(n, isCIDR(n) && cidr(n).masked() == cidr(n))",message="allowedNetworks must be CIDRs without host bits: write for example 10.0.0.0/8 or fd00::/8, and 10.1.2.3/32 for one address"
	AllowedNetworks []string `json:"allowedNetworks,omitempty"`

	// caBundleRef names a ConfigMap with the CA certificates that the server's
	// certificate is checked against. If it is not set, these are the public CAs in the
	// runner's image. Proxies mount the ConfigMap, follow its changes without a restart,
	// and do not start while it is missing. The operator does not read it.
	// +optional
	CABundleRef *CABundleReference `json:"caBundleRef,omitempty"`

	// headers are set on every request to the server, for example Authorization.
	// They replace those of the client. The client's own Authorization and Cookie
	// never reach the server.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(g, g.name.lowerAscii() == h.name.lowerAscii()))",message="two headers have one name: names of headers differ in more than upper and lower case; keep one of them"
	Headers []RemoteHeader `json:"headers,omitempty"`
}

// RemoteHeader is a header of the requests to a server that runs elsewhere.
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.valueFrom)",message="a header has either value or valueFrom: write one of them"
type RemoteHeader struct {
	// name of the header.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9-]+$')",message="the name of a header holds only letters, digits and -: write for example Authorization"
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().matches('^(mcp-.*|x-forwarded-.*|forwarded|accept|accept-encoding|connection|content-.*|cookie|expect|host|keep-alive|last-event-id|proxy-.*|te|trailer|transfer-encoding|upgrade)$')",message="the proxy or the client sets this header: remove it; credentials go into Authorization or a header of their own, for example X-Api-Key"
	Name string `json:"name"`

	// value of the header. Whoever may read the object or its run config reads it:
	// write credentials into a Secret, and name that in valueFrom.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]([ -~]*[!-~])?$')",message="the value of a header holds only visible ASCII characters, with spaces between them: remove what is not"
	Value string `json:"value,omitempty"`

	// valueFrom is where the value is.
	// +optional
	ValueFrom *RemoteHeaderSource `json:"valueFrom,omitempty"`
}

// RemoteHeaderSource is where the value of a header is.
type RemoteHeaderSource struct {
	// secretKeyRef names the key of a Secret with the value. Proxies mount it and
	// follow its changes without a restart; without it they do not start. The
	// operator does not read it.
	// +required
	SecretKeyRef SecretKeyReference `json:"secretKeyRef"`
}

// MCPRemoteProxyStatus is the observed state. Each part has one field manager; the
// table in docs/ownership.md names it.
type MCPRemoteProxyStatus struct {
	ProxyWorkloadStatus `json:",inline"`
}

// MCPRemoteProxy is a proxy in front of an MCP server that runs elsewhere.
//
// ---
//
// The rules on its status stand here for the reason that is told at MCPServer, as
// are those of its columns.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcpremoteproxies,singular=mcpremoteproxy,shortName=mcprp,categories=freehold,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[ ?(@.type=="Ready"),?(@.type=="Suspended")].reason`
// +kubebuilder:printcolumn:name="Remote",type=string,JSONPath=`.spec.url`
// +kubebuilder:printcolumn:name="Tools",type=integer,JSONPath=`.status.runtime.tools`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Workload",type=integer,priority=1,JSONPath=`.status.workload.generation`
// +kubebuilder:printcolumn:name="Public URL",type=string,priority=1,JSONPath=`.status.publicURL`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[ ?(@.type=="Ready"),?(@.type=="Suspended")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 44",message="the name must have at most 44 characters, so that the names of its Deployment and Service fit: choose a shorter one"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name must begin with a lower-case letter and hold only lower-case letters, digits and -: write for example team-echo"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.workload) || (has(self.status) && has(self.status.workload) && self.status.workload.generation >= oldSelf.status.workload.generation)",message="status.workload may not disappear and its generation may not fall: leave it as it is, and write other content into spec, which raises it; to start over, delete the object and make it again"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.runtime) || (has(self.status) && has(self.status.runtime) && self.status.runtime.generation >= oldSelf.status.runtime.generation)",message="status.runtime may not disappear and its generation may not fall: leave it to the runner; to start over, delete the object and make it again"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.runtime) || (has(self.status.workload) && self.status.runtime.generation <= self.status.workload.generation)",message="status.runtime.generation may not be higher than status.workload.generation"
type MCPRemoteProxy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object. The name has at most 44
	// characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the proxy.
	// +required
	Spec MCPRemoteProxySpec `json:"spec"`

	// status is the observed state. A new object has observedGeneration -1 until the
	// operator has seen it, so that tools such as Flux wait for it.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MCPRemoteProxyStatus `json:"status,omitempty"`
}

// MCPRemoteProxyList is a list of MCPRemoteProxies.
// +kubebuilder:object:root=true
type MCPRemoteProxyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items of the list.
	Items []MCPRemoteProxy `json:"items"`
}
