package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConfigStatus is the observed state of a configuration that workloads refer to.
// Its own controller writes all of it, and no other one any of it.
type ConfigStatus struct {
	// observedGeneration is the metadata.generation for which the conditions
	// hold. -1 means that the operator has not seen the configuration yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say whether the configuration is valid, and whether every workload
	// that refers to it runs with its content.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=64
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// hash is the SHA-256 of what the configuration says, in lower-case hexadecimal
	// digits. A server that runs with it has the same hash in status.workload.configs.
	// It is empty while the spec is not valid.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`

	// policies is the number of policies of an MCPAuthzConfig.
	// +optional
	Policies *int32 `json:"policies,omitempty"`

	// workloads is the number of workloads that refer to the configuration.
	// +optional
	Workloads *int32 `json:"workloads,omitempty"`

	// referencingWorkloads are the workloads that refer to the configuration, sorted
	// by kind and name. If there are more than 500, these are the first 500.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	ReferencingWorkloads []WorkloadReference `json:"referencingWorkloads,omitempty"`
}

// WorkloadReference names a workload of the same namespace.
type WorkloadReference struct {
	// kind of the workload, for example MCPServer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
