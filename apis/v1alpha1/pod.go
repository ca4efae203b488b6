package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Resources are the compute resources of one container. It is a type of its
// own, not corev1.ResourceRequirements, because only a bounded map can carry a
// rule with a message of its own, and because resource claims are not offered.
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || self.limits.all(k, size(k) <= 317 && size(string(self.limits[k])) <= 64)",message="limits have names of at most 317 characters and values of at most 64: write for example memory: 128Mi"
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || self.limits.all(k, type(self.limits[k]) == int || isQuantity(self.limits[k]))",message="limits must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi"
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || self.requests.all(k, size(k) <= 317 && size(string(self.requests[k])) <= 64)",message="requests have names of at most 317 characters and values of at most 64: write for example memory: 128Mi"
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || self.requests.all(k, type(self.requests[k]) == int || isQuantity(self.requests[k]))",message="requests must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi"
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || self.limits.all(k, type(self.limits[k]) == int ? self.limits[k] >= 0 : !self.limits[k].startsWith('-'))",message="limits must not be negative: write 0 or more, or leave the entry out"
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || self.limits.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] || k.contains('/') || k.startsWith('hugepages-'))",message="limits name a resource that Kubernetes does not know: write cpu, memory or ephemeral-storage, or another by its whole name, for example nvidia.com/gpu"
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || self.requests.all(k, type(self.requests[k]) == int ? self.requests[k] >= 0 : !self.requests[k].startsWith('-'))",message="requests must not be negative: write 0 or more, or leave the entry out"
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || self.requests.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] || k.contains('/') || k.startsWith('hugepages-'))",message="requests name a resource that Kubernetes does not know: write cpu, memory or ephemeral-storage, or another by its whole name, for example nvidia.com/gpu"
type Resources struct {
	// limits are the most that the container may use, by resource, for example
	// memory: 256Mi. A fraction is in quotes, as cpu: "0.5", or in thousandths, as
	// cpu: 500m.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Limits corev1.ResourceList `json:"limits,omitempty"`

	// requests are what the scheduler reserves for the container, by resource,
	// for example cpu: 50m; a fraction as in limits. A resource with a limit and no request requests its
	// limit.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Requests corev1.ResourceList `json:"requests,omitempty"`
}
