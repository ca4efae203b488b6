package podtemplate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// An annotation stays where somebody else holds it, as after a restore, and is of earlier content then.
func TestPodsHaveTheRunConfigThatTheyMount(t *testing.T) {
	for name, row := range map[string]struct {
		volume corev1.VolumeSource
		want   string
	}{
		"their own":     {corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, "text"},
		"a ConfigMap's": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, ""},
	} {
		template := &corev1.PodTemplateSpec{}
		template.Annotations = map[string]string{AnnotationRunConfig: "text"}
		template.Spec.Volumes = []corev1.Volume{{Name: "other"}, {Name: runVolume, VolumeSource: row.volume}}
		if got := Carried(template); got != row.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
