package podtemplate

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// loginFiles is the volume of what a login needs and the run config does not hold.
// It is projected by name and not by content, and mounted without subPath, so that
// kubelet brings the runner each change. nil where a login needs none.
func loginFiles(a *runconfig.Authentication) *corev1ac.VolumeApplyConfiguration {
	if a == nil || a.CABundle == nil && a.Introspection == nil {
		return nil
	}
	const readable = 0o644
	files := corev1ac.ProjectedVolumeSource().WithDefaultMode(readable)
	if ca := a.CABundle; ca != nil {
		files.WithSources(corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().
			WithName(ca.Name).WithItems(corev1ac.KeyToPath().WithKey(ca.Key).WithPath(runconfig.CAFile))))
	}
	if i := a.Introspection; i != nil {
		files.WithSources(corev1ac.VolumeProjection().WithSecret(corev1ac.SecretProjection().
			WithName(i.ClientSecret.Name).WithItems(corev1ac.KeyToPath().WithKey(i.ClientSecret.Key).WithPath(runconfig.ClientSecretFile))))
	}
	return corev1ac.Volume().WithName(runconfig.LoginVolume).WithProjected(files)
}
