package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCPServerStatus is the observed state. Each part has one field manager; the
// table in docs/ownership.md names it.
type MCPServerStatus struct {
	ProxyWorkloadStatus `json:",inline"`

	// replicas is the number of backend pods. The scale subresource reports it.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of backend pods that are ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// selector is the label selector of the backend pods, as text. Autoscalers
	// read it through the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`

	// active is the content of the backend that gets the calls. Once it is stated it stays.
	// +optional
	Active *ActiveBackend `json:"active,omitempty"`

	// rollout is the rollout of other content that is under way. It is absent at rest.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// lastRollout is what the last rollout came to.
	// +optional
	LastRollout *RolloutOutcome `json:"lastRollout,omitempty"`
}

// WorkloadStatus numbers the content of the workload: what decides how the pods
// of proxy and backend look, such as image, arguments, environment, the proxy's
// configuration and image, and restartedAt. Scaling, labels and groups are not
// content.
type WorkloadStatus struct {
	// generation is the number of the content. It grows by one each time the
	// content changes, and never falls.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation"`

	// hash is the SHA-256 of the content, in lower-case hexadecimal digits.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash"`

	// ownHash is the SHA-256 of the content without what shared configurations
	// say, in lower-case hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OwnHash string `json:"ownHash,omitempty"`

	// backendHash is the SHA-256 of what the backend's pods run, in lower-case
	// hexadecimal digits. Only an MCPServer has it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BackendHash string `json:"backendHash,omitempty"`

	// bridgeImage is the image of the bridge in the backend's pods. A release with
	// another runner image does not change it until something else about these pods
	// changes. Only an MCPServer of transport stdio or sse has it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	BridgeImage string `json:"bridgeImage,omitempty"`

	// bridgeImages are those of other contents of the backend that the status named at
	// the claim, by the hash of the content. Going back to what serves replaces none of
	// its pods for another bridge. Only an MCPServer has them.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 64 && size(self[k]) <= 1024)",message="a hash has at most 64 characters, and an image at most 1024"
	BridgeImages map[string]string `json:"bridgeImages,omitempty"`

	// sessionSecret is the name of the Secret with the keys of session ids, which the
	// proxies mount. It does not change while the object exists.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SessionSecret string `json:"sessionSecret,omitempty"`

	// strategy is Successive where the backend's content is to come up beside what serves:
	// then the runner makes nothing of it before status.rollout says so. Absent, it replaces
	// the pods in place.
	// +optional
	Strategy RolloutStrategy `json:"strategy,omitempty"`

	// configs are the shared configurations that the content was rendered from.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=8
	Configs []WorkloadConfig `json:"configs,omitempty"`

	// configRollout was written by earlier releases: it is read as inTurn of all configs,
	// and goes with the next content.
	// +optional
	ConfigRollout bool `json:"configRollout,omitempty"`

	// labels are those of the objects that the runner makes, beside Freehold's own: what
	// the release says of all objects, and what this one hands down. Only an MCPServer has
	// them. A change replaces no pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && size(self[k]) <= 63)",message="a label has a name of at most 317 characters and a value of at most 63: shorten it"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are those of the same objects.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && size(self[k]) <= 16384)",message="an annotation has a name of at most 317 characters, and here a value of at most 16384: shorten it"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// WorkloadConfig is a shared configuration as a workload runs with it.
type WorkloadConfig struct {
	// kind of the configuration, for example MCPAuthzConfig.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the configuration.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// hash is the SHA-256 of what the configuration says, in lower-case hexadecimal
	// digits. It changes if the meaning changes, and not if only white space does.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash"`

	// inTurn says that the workload took this content of the configuration when its turn
	// came. Until it has served with it (servedGeneration) it counts among those that are
	// under way at a time, and holds back the others if it fails.
	// +optional
	InTurn bool `json:"inTurn,omitempty"`
}

// RuntimeStatus is what the proxy's runner observed.
type RuntimeStatus struct {
	// serverUID is the metadata.uid of the object for which the proxy was
	// started.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ServerUID string `json:"serverUID"`

	// generation is the workload generation of the content that the backend was
	// last given. It never falls.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation"`

	// backendHash is the hash of the content that BackendAnswers, server, protocolVersions
	// and the numbers below speak of: of status.active while that is other content than
	// that of generation, which comes up beside it. It is absent where there is no
	// backend, and of runners of earlier releases, which speak of the content of generation.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BackendHash string `json:"backendHash,omitempty"`

	// phase is how the workload fares as the runner sees it, for programs: BackendApplied
	// and BackendAnswers say it in words. Runners of earlier releases state none.
	// +optional
	Phase WorkloadPhase `json:"phase,omitempty"`

	// server is what the MCP server says of itself.
	// +optional
	Server *ServerInfo `json:"server,omitempty"`

	// protocolVersions are the revisions of MCP in which the proxy answered the
	// runner, for example 2025-11-25. A server of one era is offered to clients of both.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	ProtocolVersions []string `json:"protocolVersions,omitempty"`

	// tools is the number of tools that the server has. It is absent if it is not
	// known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Tools *int32 `json:"tools,omitempty"`

	// prompts is the number of prompts that the server has. It is absent if it is
	// not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Prompts *int32 `json:"prompts,omitempty"`

	// resources is the number of resources that the server has. It is absent if it
	// is not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Resources *int32 `json:"resources,omitempty"`

	// candidate is what the runner saw of the content of a rollout that gets no calls yet.
	// +optional
	Candidate *CandidateStatus `json:"candidate,omitempty"`
}

// CandidateStatus is what the runner saw of the content of a rollout that gets no calls yet.
type CandidateStatus struct {
	// hash is that of the content.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash"`

	// answers says whether the content speaks MCP, and its tools were compared.
	// +required
	Answers bool `json:"answers"`

	// reason is why it does not answer, for programs.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// message is the same for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`

	// lost is how many tools the content that gets the calls has and this one has not, or
	// not for the same arguments.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Lost int32 `json:"lost,omitempty"`

	// lostTools are their names, the first ones where they are many.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=128
	LostTools []string `json:"lostTools,omitempty"`

	// added is how many tools this content has and the other has not.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Added int32 `json:"added,omitempty"`
}

// ServerInfo is the Implementation of the MCP specification.
type ServerInfo struct {
	// name is the name that the MCP server gives itself.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name"`

	// version is the version that the MCP server gives itself.
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
// +kubebuilder:printcolumn:name="Transport",type=string,priority=1,JSONPath=`.spec.transport`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Workload",type=integer,priority=1,JSONPath=`.status.workload.generation`
// +kubebuilder:printcolumn:name="Public URL",type=string,priority=1,JSONPath=`.status.publicURL`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[ ?(@.type=="Ready"),?(@.type=="Suspended")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 44",message="the name must have at most 44 characters, so that the names of its StatefulSet and Services fit: choose a shorter one"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name must begin with a lower-case letter and hold only lower-case letters, digits and -: write for example team-echo"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.workload) || (has(self.status) && has(self.status.workload) && self.status.workload.generation >= oldSelf.status.workload.generation)",message="status.workload may not disappear and its generation may not fall: leave it as it is, and write other content into spec, which raises it; to start over, delete the server and make it again"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.runtime) || (has(self.status) && has(self.status.runtime) && self.status.runtime.generation >= oldSelf.status.runtime.generation)",message="status.runtime may not disappear and its generation may not fall: leave it to the runner; to start over, delete the server and make it again"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.runtime) || (has(self.status.workload) && self.status.runtime.generation <= self.status.workload.generation)",message="status.runtime.generation may not be higher than status.workload.generation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.active) || (has(self.status) && has(self.status.active) && self.status.active.generation >= oldSelf.status.active.generation)",message="status.active may not disappear and its generation may not fall: leave it as it is, and write other content into spec; to start over, delete the server and make it again"
type MCPServer struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object. The name has at most 44
	// characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the server.
	// +required
	Spec MCPServerSpec `json:"spec"`

	// status is the observed state of the server. A new server has
	// observedGeneration -1 until the operator has seen it, so that tools such as
	// Flux wait for it.
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
