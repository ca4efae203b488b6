package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MCPAuthzConfig says what callers may do, for the servers that name it in
// spec.authzConfigRef.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcpauthzconfigs,singular=mcpauthzconfig,shortName=mcpauthz,categories=freehold,scope=Namespaced
// +kubebuilder:printcolumn:name="Policies",type=integer,JSONPath=`.status.policies`
// +kubebuilder:printcolumn:name="Workloads",type=integer,JSONPath=`.status.workloads`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPAuthzConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the policies.
	// +required
	Spec AuthzConfig `json:"spec"`

	// status is the observed state.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status ConfigStatus `json:"status,omitempty"`
}

// MCPAuthzConfigList is a list of MCPAuthzConfigs.
// +kubebuilder:object:root=true
type MCPAuthzConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items of the list.
	Items []MCPAuthzConfig `json:"items"`
}
