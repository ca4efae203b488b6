package podtemplate

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// Claims are the templates of a StatefulSet's claims as the API server stores them. The
// list is one value to server-side apply, so that each of its defaults that an intent
// leaves out is a difference:
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/v1/defaults.go.
// apiVersion and kind are left out all the same: protobuf, in which typed clients read,
// does not carry those of an item. The error is that of an encoding.
func Claims(templates []corev1.PersistentVolumeClaimTemplate) ([]*corev1ac.PersistentVolumeClaimApplyConfiguration, error) {
	var claims []*corev1ac.PersistentVolumeClaimApplyConfiguration
	for _, t := range templates {
		fields, err := Canonical(t.DeepCopy())
		if err != nil {
			return nil, err
		}
		claim, err := fromFields[corev1ac.PersistentVolumeClaimApplyConfiguration](fields)
		if err != nil {
			return nil, err
		}
		if claim.Spec == nil {
			claim.Spec = corev1ac.PersistentVolumeClaimSpec()
		}
		if claim.Spec.VolumeMode == nil {
			claim.Spec.WithVolumeMode(corev1.PersistentVolumeFilesystem)
		}
		claims = append(claims, claim.WithStatus(corev1ac.PersistentVolumeClaimStatus().WithPhase(corev1.ClaimPending)))
	}
	return claims, nil
}
