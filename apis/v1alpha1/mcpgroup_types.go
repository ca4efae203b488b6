package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MCPGroupSpec is what a group says of itself. Who belongs to it says so in its own spec.groupRef.
type MCPGroupSpec struct {
	// description says what the group is for.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Description string `json:"description,omitempty"`
}

// MCPGroupStatus is the observed state.
type MCPGroupStatus struct {
	ConfigStatus `json:",inline"`

	// memberCount is the number of MCPServers and MCPRemoteProxies that name the group in
	// spec.groupRef.
	// +optional
	MemberCount *int32 `json:"memberCount,omitempty"`

	// readyMembers is the number of those that are ready.
	// +optional
	ReadyMembers *int32 `json:"readyMembers,omitempty"`

	// members are these, sorted by kind and name. If there are more than 500, these are the
	// first 500.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	Members []GroupMember `json:"members,omitempty"`
}

// GroupMember is a server of a group.
type GroupMember struct {
	WorkloadReference `json:",inline"`

	// ready is whether the server's condition Ready is True.
	// +required
	Ready bool `json:"ready"`
}

// MCPGroup is a set of MCPServers and MCPRemoteProxies of a namespace: those that name it in
// spec.groupRef.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcpgroups,singular=mcpgroup,shortName=mcpg,categories=freehold,scope=Namespaced
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=`.status.memberCount`
// +kubebuilder:printcolumn:name="Members Ready",type=integer,JSONPath=`.status.readyMembers`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what the group is for. It may be empty.
	// +optional
	// +default={}
	// +kubebuilder:default={}
	Spec MCPGroupSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status MCPGroupStatus `json:"status,omitempty"`
}

// MCPGroupList is a list of MCPGroups.
// +kubebuilder:object:root=true
type MCPGroupList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items of the list.
	Items []MCPGroup `json:"items"`
}
