package workload

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// RunConfigMap carries the run config to the runner. It is immutable and named
// by its revision, so that file and number cannot part: kubelet may start a pod on
// an old copy of a ConfigMap that changes. The error is that of run.Encode.
func RunConfigMap(run runconfig.RunConfig) (*corev1ac.ConfigMapApplyConfiguration, error) {
	data, err := run.Encode()
	if err != nil {
		return nil, err
	}
	id := run.Server
	return corev1ac.ConfigMap(RunConfigName(id.Name, revision.Revision(run.Workload)), id.Namespace).
		WithLabels(Labels(id.Name, ComponentRunner)).
		WithAnnotations(revision.Revision(run.Workload).Annotations()).
		WithOwnerReferences(owner(id)).
		WithImmutable(true).
		WithData(map[string]string{runconfig.FileName: string(data)}), nil
}
