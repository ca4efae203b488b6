package podtemplate

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// files are what a proxy needs besides the run config, such as certificates and passwords. They are projected by
// name, and mounted without subPath, so that kubelet updates them.
type files struct {
	volume, path string
	// sources is nil if nothing is needed.
	sources *corev1ac.ProjectedVolumeSourceApplyConfiguration
}

func (f *files) add(part *corev1ac.VolumeProjectionApplyConfiguration) {
	const readable = 0o644
	if f.sources == nil {
		f.sources = corev1ac.ProjectedVolumeSource().WithDefaultMode(readable)
	}
	f.sources.WithSources(part)
}

func (f *files) config(key *runconfig.Key, file string) {
	f.add(corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().
		WithName(key.Name).WithItems(corev1ac.KeyToPath().WithKey(key.Key).WithPath(file))))
}

func (f *files) secret(key *runconfig.Key, file string) {
	f.add(corev1ac.VolumeProjection().WithSecret(corev1ac.SecretProjection().
		WithName(key.Name).WithItems(corev1ac.KeyToPath().WithKey(key.Key).WithPath(file))))
}

func loginFiles(a *runconfig.Authentication) files {
	f := files{volume: runconfig.LoginVolume, path: runconfig.LoginPath}
	if a == nil {
		return f
	}
	if a.CABundle != nil {
		f.config(a.CABundle, runconfig.CAFile)
	}
	if a.Introspection != nil {
		f.secret(&a.Introspection.ClientSecret, runconfig.ClientSecretFile)
	}
	return f
}

func remoteFiles(r *runconfig.Remote) files {
	f := files{volume: runconfig.RemoteVolume, path: runconfig.RemotePath}
	if r == nil {
		return f
	}
	if r.CABundle != nil {
		f.config(r.CABundle, runconfig.CAFile)
	}
	for _, h := range r.Headers {
		if h.Secret != nil {
			f.secret(h.Secret, runconfig.HeaderFile(h.Name))
		}
	}
	return f
}
