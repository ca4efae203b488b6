package workload

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A server has a place to write where its image may have none, and what its spec says of one stays.
func TestAServerHasAPlaceToWrite(t *testing.T) {
	readOnly := func(s *v1alpha1.MCPServer) {
		s.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"spec": {"containers": [{"name": "server",
			"securityContext": {"readOnlyRootFilesystem": true}}]}}`)}
	}
	stdio := func(s *v1alpha1.MCPServer) {
		s.Spec.Transport, s.Spec.Command = v1alpha1.TransportStdio, []string{"/server"}
	}
	mounted := func(name, path string, readOnly bool) func(*v1alpha1.MCPServer) {
		return func(s *v1alpha1.MCPServer) {
			s.Spec.Volumes = append(s.Spec.Volumes, corev1.Volume{
				Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			})
			mount := corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: readOnly}
			s.Spec.VolumeMounts = append(s.Spec.VolumeMounts, mount)
		}
	}
	declared := func(s *v1alpha1.MCPServer) {
		s.Spec.Env = append(s.Spec.Env, corev1.EnvVar{Name: "TMPDIR", Value: "/app"})
	}
	declaredElsewhere := func(s *v1alpha1.MCPServer) {
		s.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
		}}}
	}
	for name, tc := range map[string]struct {
		edits  []func(*v1alpha1.MCPServer)
		volume bool
		set    string // the variables that lead there
	}{
		"a root that can be written": {nil, false, ""},
		"a root that cannot":         {edits(readOnly), true, "TMPDIR"},
		"a folder that is declared":  {edits(readOnly, declared), false, ""},
		"what may declare one":       {edits(readOnly, declaredElsewhere), false, ""},
		"a volume elsewhere":         {edits(readOnly, mounted("data", "/data", false)), true, "TMPDIR"},
		"a volume for reading":       {edits(readOnly, mounted("data", "/tmp", true)), true, "TMPDIR"},
		"a volume at /tmp":           {edits(readOnly, mounted("tmp", "/tmp/", false)), false, ""},
		"the bridge looks itself":    {edits(stdio), true, ""},
		"the same, with a root":      {edits(stdio, readOnly), true, ""},
		"a volume of this name":      {edits(stdio, mounted("freehold-scratch", "/data", false)), false, ""},
		"a volume at this path":      {edits(readOnly, mounted("data", "/freehold-scratch/a", false)), false, ""},
	} {
		server := read(t, "minimal")
		for _, edit := range tc.edits {
			edit(server)
		}
		pod := backendTemplate(t, sound(t, server, options), 7).(*corev1ac.PodTemplateSpecApplyConfiguration).Spec
		var volume bool
		for _, v := range pod.Volumes {
			volume = volume || *v.Name == "freehold-scratch" && v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil
		}
		var set []string
		for _, v := range pod.Containers[0].Env {
			if ptr.Deref(v.Value, "") == "/freehold-scratch" {
				set = append(set, *v.Name)
			}
		}
		if got := strings.Join(set, " "); volume != tc.volume || got != tc.set {
			t.Errorf("%s: a volume %t, and %q lead to it", name, volume, got)
		}
	}
}

func edits(each ...func(*v1alpha1.MCPServer)) []func(*v1alpha1.MCPServer) { return each }
