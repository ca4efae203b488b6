package v1alpha1

import corev1 "k8s.io/api/core/v1"

// VolumeClaimTemplate is a PersistentVolumeClaim that each backend pod gets, as in a
// StatefulSet
// (https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#volume-claim-templates).
// The rules name the mistakes that the API server finds only when it makes a claim:
// nobody could mend them in a field that cannot change.
// +kubebuilder:validation:XValidation:rule="has(self.spec.accessModes) && size(self.spec.accessModes) > 0 && size(self.spec.accessModes) < 5 && [0, 1, 2, 3].all(i, i >= size(self.spec.accessModes) || self.spec.accessModes[i] in ['ReadWriteOnce', 'ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOncePod'])",message="spec.accessModes must name how pods mount the volume: write for example [ReadWriteOnce]"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.accessModes) || size(self.spec.accessModes) < 2 || [0, 1, 2, 3].all(i, i >= size(self.spec.accessModes) || self.spec.accessModes[i] != 'ReadWriteOncePod')",message="spec.accessModes must not name another mode beside ReadWriteOncePod: write [ReadWriteOncePod], or the other modes without it"
// +kubebuilder:validation:XValidation:rule="has(self.spec.resources) && has(self.spec.resources.requests) && 'storage' in self.spec.resources.requests && (type(self.spec.resources.requests['storage']) == int ? self.spec.resources.requests['storage'] > 0 : (isQuantity(self.spec.resources.requests['storage']) && quantity(self.spec.resources.requests['storage']).isGreaterThan(quantity('0'))))",message="spec.resources.requests.storage must say how much each pod gets, above 0: write for example 1Gi"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.volumeName)",message="spec.volumeName would bind all pods to one volume: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.volumeMode) || self.spec.volumeMode in ['Filesystem', 'Block']",message="spec.volumeMode must be Filesystem or Block: leave it out for Filesystem"
type VolumeClaimTemplate struct {
	// metadata names the template, and labels the claims.
	// +required
	Metadata VolumeClaimMetadata `json:"metadata"`

	// spec is that of each claim, as in a PersistentVolumeClaim. accessModes and
	// resources.requests.storage are required; without storageClassName the cluster's
	// default class provides the volume.
	// +required
	Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
}

// VolumeClaimMetadata is what of metadata a claim takes from its template.
type VolumeClaimMetadata struct {
	// name is by which volumeMounts refer to the volume. The claim of the first pod is
	// called NAME-SERVER-backend-0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a volume has no such name: write at most 63 lower-case letters, digits and -, for example data"
	Name string `json:"name"`

	// labels of each claim, beside those of the pods' selector.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && size(self[k]) <= 63)",message="a label has a name of at most 317 characters and a value of at most 63: shorten it"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of each claim.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && size(self[k]) <= 65536)",message="an annotation has a name of at most 317 characters and a value of at most 65536: shorten it"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// VolumeClaimRetention says what becomes of claims.
type VolumeClaimRetention struct {
	// whenDeleted says what becomes of the claims of volumeClaimTemplates when the server
	// is deleted: Retain keeps them and their data, Delete deletes both. The default is
	// Retain. Scaling and suspending a server always keep them.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	WhenDeleted string `json:"whenDeleted,omitempty"`
}
