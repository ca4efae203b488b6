// Package v1alpha1 is the first version of Freehold's API, group freehold.dev.
//
// One file a kind (*_types.go); proxy_workload.go has what all kinds with a proxy have,
// proxy.go, references.go and pod.go the parts of specs, conditions.go the condition
// types and reasons, which are API too: people and tools match on them.
//
// Every list says how it merges (listType), so that several writers can apply
// parts of one object: see https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +kubebuilder:object:generate=true
// +groupName=freehold.dev
package v1alpha1
