package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCPServerStatus is what was observed. Each part has one manager; the table
// in docs/ownership.md says which.
type MCPServerStatus struct {
	// observedGeneration is the metadata.generation that conditions speak of.
	// It is applied together with them.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are what was last observed of the server, and why it is so.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// workload is the content that proxy and backend are to run. Its
	// generation never falls.
	// +optional
	Workload *WorkloadStatus `json:"workload,omitempty"`

	// runtime is what the runner in the proxy pod reports.
	// +optional
	Runtime *RuntimeStatus `json:"runtime,omitempty"`

	// url is where clients in the cluster call.
	// +optional
	URL string `json:"url,omitempty"`

	// replicas is the number of backend pods, for the scale subresource.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of backend pods that are ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// selector selects the backend pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
}

// WorkloadStatus numbers the content of the workload: image, arguments,
// environment, run config, the runner's image, restartedAt. It changes with
// that content only; scaling, labels and groups leave it alone.
type WorkloadStatus struct {
	// generation grows by one each time the content changes.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation"`

	// hash of the content, lower-case hexadecimal SHA-256.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash"`
}

// RuntimeStatus is the runner's report.
type RuntimeStatus struct {
	// serverUID is the uid of the MCPServer that the runner was started for.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ServerUID string `json:"serverUID"`

	// generation is the workload generation of the newest runner that applied
	// the backend.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation"`

	// server is how the MCP server calls itself.
	// +optional
	Server *ServerInfo `json:"server,omitempty"`

	// protocolVersions are the revisions of MCP that the server was seen to
	// speak, for example 2025-11-25.
	// +optional
	// +listType=set
	ProtocolVersions []string `json:"protocolVersions,omitempty"`

	// tools is the number of tools that the server lists.
	// +optional
	Tools *int32 `json:"tools,omitempty"`

	// prompts is the number of prompts that the server lists.
	// +optional
	Prompts *int32 `json:"prompts,omitempty"`

	// resources is the number of resources that the server lists.
	// +optional
	Resources *int32 `json:"resources,omitempty"`
}

// ServerInfo is the Implementation of the MCP specification.
type ServerInfo struct {
	// name of the server.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name"`

	// version of the server.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Version string `json:"version,omitempty"`
}

// MCPServer is an MCP server run from an image, behind a proxy.
//
// ---
//
// The rules on its status stand here, on the root, because a rule placed on
// status is passed over by a PUT of the status subresource without status.
//
// The columns Reason and Message show Ready, or Suspended where there is no
// Ready. The space in their paths is needed: with it the API server reads a
// union of two filters, and without it one filter that it cannot parse.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=mcpservers,singular=mcpserver,shortName=mcp,categories=freehold,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[ ?(@.type=="Ready"),?(@.type=="Suspended")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Tools",type=integer,JSONPath=`.status.runtime.tools`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Workload",type=integer,priority=1,JSONPath=`.status.workload.generation`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[ ?(@.type=="Ready"),?(@.type=="Suspended")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 44",message="the name must have at most 44 characters, so that the names of its StatefulSet and Services fit: choose a shorter one"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name must begin with a lower-case letter and hold only lower-case letters, digits and -: write for example team-echo"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.workload) || (has(self.status) && has(self.status.workload) && self.status.workload.generation >= oldSelf.status.workload.generation)",message="status.workload may not disappear and its generation may not fall: leave it as it is, and write other content into spec, which raises it; to start over, delete the server and make it again"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.runtime) || (has(self.status) && has(self.status.runtime) && self.status.runtime.generation >= oldSelf.status.runtime.generation)",message="status.runtime may not disappear and its generation may not fall: leave it to the runner; to start over, delete the server and make it again"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.runtime) || (has(self.status.workload) && self.status.runtime.generation <= self.status.workload.generation)",message="status.runtime.generation may not be higher than status.workload.generation"
type MCPServer struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the server.
	// +required
	Spec MCPServerSpec `json:"spec"`

	// status is what was last observed. Before that, observedGeneration is -1, so
	// that kstatus does not call a server Current which the operator has not seen.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MCPServerStatus `json:"status,omitempty"`
}

// MCPServerList is a list of MCPServers.
// +kubebuilder:object:root=true
type MCPServerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items of the list.
	Items []MCPServer `json:"items"`
}
