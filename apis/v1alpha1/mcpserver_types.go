package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
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

// MCPServerSpec is the desired state of an MCP server. Several field managers
// may each own a part of it: Git most fields, an autoscaler replicas, an
// authorization controller authzConfig. Freehold writes none of it.
// +kubebuilder:validation:XValidation:rule="self.transport != 'stdio' || (has(self.command) && size(self.command) > 0)",message="transport stdio needs command: write the program that speaks MCP on its standard input and output, for example command: [\"/server\"]"
// +kubebuilder:validation:XValidation:rule="!has(self.env) || self.env.all(e, !(has(e.value) && has(e.valueFrom)))",message="an env item has either value or valueFrom: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.stdio) || self.transport == 'stdio'",message="stdio is for transport stdio: remove it, or write transport: stdio"
// +kubebuilder:validation:XValidation:rule="self.transport != 'sse' || self.port != 9441",message="port 9441 is where Freehold's bridge listens beside a server of transport sse: write another port, and have the image listen there"
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplates) == has(oldSelf.volumeClaimTemplates) && (!has(self.volumeClaimTemplates) || self.volumeClaimTemplates == oldSelf.volumeClaimTemplates)",message="volumeClaimTemplates cannot be changed, added or removed, because a StatefulSet cannot change them: leave them as they are, or delete the server and make it again; its claims stay unless persistentVolumeClaimRetentionPolicy.whenDeleted is Delete"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimTemplates) || self.volumeClaimTemplates.all(t, self.volumeClaimTemplates.exists_one(u, u.metadata.name == t.metadata.name))",message="two volumeClaimTemplates have one metadata.name: rename one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimTemplates) || !has(self.volumes) || self.volumeClaimTemplates.all(t, !self.volumes.exists(v, v.name == t.metadata.name))",message="volumes and volumeClaimTemplates have an item of the same name: rename one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimTemplates) || !self.volumeClaimTemplates.exists(t, t.metadata.name == 'freehold-bridge')",message="the volume freehold-bridge is Freehold's: choose another name in volumeClaimTemplates"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimTemplates) || !has(self.rollout) || !has(self.rollout.strategy) || self.rollout.strategy != 'Successive'",message="rollout.strategy Successive would give the new pods other claims than the old ones have: write Replace, or leave volumeClaimTemplates out"
// +kubebuilder:validation:XValidation:rule="!has(self.persistentVolumeClaimRetentionPolicy) || has(self.volumeClaimTemplates)",message="persistentVolumeClaimRetentionPolicy is for the claims of volumeClaimTemplates: remove it, or write volumeClaimTemplates in a new server"
type MCPServerSpec struct {
	ProxyWorkloadSpec `json:",inline"`

	// image is the container image of the MCP server, for example
	// registry.example.com/team/server:1.2.3.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*:[0-9a-fA-F]{32,})?$')",message="image must be an image reference without scheme, spaces or template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3"
	Image string `json:"image"`

	// command replaces the entrypoint of the image, as in a container of a Pod.
	// The image's own entrypoint is used if it is not set.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=131072
	Command []string `json:"command,omitempty"`

	// args are the arguments of the command or of the image's entrypoint, as in a
	// container of a Pod. The image's own are used if neither args nor command is
	// set.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=131072
	Args []string `json:"args,omitempty"`

	// env are environment variables of the server's container, each with a value
	// or a valueFrom, as in a container of a Pod. They take precedence over
	// envFrom.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom are ConfigMaps and Secrets whose keys all become environment
	// variables of the server's container.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// transport is how the image speaks MCP: streamable-http, sse (the deprecated
	// HTTP+SSE of revision 2024-11-05) or stdio. Clients call the proxy by
	// streamable HTTP whatever it is. The default is streamable-http.
	// +optional
	// +default="streamable-http"
	// +kubebuilder:default="streamable-http"
	Transport Transport `json:"transport,omitempty"`

	// port is the TCP port on which the image listens, from 1 to 65535. The
	// default is 8080. With transport stdio it is where Freehold's bridge listens in
	// the backend's pod, with sse it may not be 9441, where that listens then.
	// +optional
	// +default=8080
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="write the port on which the image listens, 1 to 65535"
	Port int32 `json:"port,omitempty"`

	// stdio says how a server of transport stdio runs in its pod.
	// +optional
	Stdio *StdioSpec `json:"stdio,omitempty"`

	// rollout says how new content takes the place of what serves.
	// +optional
	Rollout *RolloutSpec `json:"rollout,omitempty"`

	// replicas is the number of backend pods, from 0 to 1000. The default is 1.
	// With 0 the proxy stops, too. Leave the field out of Git if an autoscaler or
	// kubectl scale sets it. The requests of a session reach the pod that keeps
	// it; calls without a session reach any pod.
	// +optional
	// +default=1
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000",message="write how many pods there are to be, 0 to 1000"
	Replicas *int32 `json:"replicas,omitempty"`

	// resources are the compute resources of the server's container. It has no
	// requests and no limits if they are not set.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// volumes are the volumes of the backend pods, as in a Pod. hostPath is not
	// allowed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(v, !has(v.hostPath))",message="hostPath volumes are not allowed: use a persistentVolumeClaim, emptyDir, configMap or secret"
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// volumeMounts are the mounts of volumes and volumeClaimTemplates in the
	// server's container, as in a container of a Pod.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=64
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// volumeClaimTemplates are PersistentVolumeClaims that each backend pod gets, as in a
	// StatefulSet: a volume of its own that a pod of the same number finds again.
	// volumeMounts mount them by metadata.name. They cannot be changed, added or
	// removed later.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	VolumeClaimTemplates []VolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`

	// persistentVolumeClaimRetentionPolicy says what becomes of the claims of
	// volumeClaimTemplates when the server is deleted. They stay if it is not set.
	// +optional
	PersistentVolumeClaimRetentionPolicy *VolumeClaimRetention `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// imagePullPolicy says when the node pulls the image: Always, IfNotPresent or
	// Never. The default is Always for the tag latest and for an image without a
	// tag, and IfNotPresent for every other image.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets name Secrets in this namespace with credentials for the
	// image's registry. They apply to the backend pods only.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// serviceAccountName is the ServiceAccount of the backend pods. If it is not
	// set, they run as the namespace's default account and get no API token. A
	// name that ends in -runner is refused: such accounts belong to Freehold's
	// proxies.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="serviceAccountName must be the name of a ServiceAccount of this namespace, of lower-case letters, digits, - and .: write for example echo, or leave the field out"
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('-runner')",message="accounts that end in -runner are those of Freehold's runners: choose another"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// podTemplate is a PodTemplateSpec that Freehold merges into the pod template
	// of the backend, for what no other field of spec says: labels, node
	// selectors, sidecars. The container with the image is called server. A field
	// that Freehold sets is refused, except runAsNonRoot, seccompProfile, and
	// securityContext of the container server. So is a field that breaks the
	// baseline Pod Security Standard. The condition Accepted names what is
	// refused, and what to write instead.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`

	// toolConfigRef names the MCPToolConfig that says which tools callers see.
	// This version does not enforce it: while it is set, the proxy refuses every
	// call, and the server is not ready, with reason NotEnforced.
	// +optional
	ToolConfigRef *LocalReference `json:"toolConfigRef,omitempty"`

	// externalAuthConfigRef names the MCPExternalAuthConfig that says how the
	// proxy authenticates to the backend. This version does not enforce it: while
	// it is set, the proxy refuses every call, and the server is not ready, with
	// reason NotEnforced.
	// +optional
	ExternalAuthConfigRef *LocalReference `json:"externalAuthConfigRef,omitempty"`

	// network says who may connect to the backend pods past the proxy, and what they may
	// connect to.
	// +optional
	Network *NetworkSpec `json:"network,omitempty"`
}
