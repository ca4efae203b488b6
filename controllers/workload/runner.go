package workload

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// Short reports whether the proxy's pod template carries the run config. Else the ConfigMap does.
func (r Rendered) Short() bool { return r.short }

// ConfigMap carries a long run config under a workload generation. It is immutable and named by its revision, so that
// content and number always match: kubelet may start a pod on an old copy of a changed ConfigMap. The error is that
// of Content.Encode.
func (r Rendered) ConfigMap(generation int64) (*corev1ac.ConfigMapApplyConfiguration, error) {
	run := r.Claimed(generation)
	data, err := run.Encode()
	if err != nil {
		return nil, err
	}
	key, rev := r.owner.Key(), revision.Revision(run.Workload)
	return child(corev1ac.ConfigMap(RunConfigName(key, rev), r.owner.Namespace), r.owner, ComponentRunner).
		WithAnnotations(rev.Annotations()).
		WithImmutable(true).
		WithData(map[string]string{runconfig.FileName: string(data)}), nil
}

// SessionSecret has the first key of an owner's session ids. It is created and never changed: whoever rotates the
// keys owns them (docs/how-to/sessions.md).
func SessionSecret(owner Owner, name, key string) *corev1ac.SecretApplyConfiguration {
	return child(corev1ac.Secret(name, owner.Namespace), owner, ComponentRunner).
		WithData(map[string][]byte{runconfig.SessionKey: []byte(key)})
}
