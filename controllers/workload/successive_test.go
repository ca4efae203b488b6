package workload

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// Two contents at a time cannot have one volume or one device.
func TestWhatTwoContentsCannotShare(t *testing.T) {
	claims := func(readOnly bool) func(*v1alpha1.MCPServerSpec) {
		return func(spec *v1alpha1.MCPServerSpec) {
			spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "notes", ReadOnly: readOnly},
			}}}
		}
	}
	limits := func(name corev1.ResourceName) func(*v1alpha1.MCPServerSpec) {
		return func(spec *v1alpha1.MCPServerSpec) {
			spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{name: resource.MustParse("1")}}
		}
	}
	for name, tc := range map[string]struct {
		strategy v1alpha1.RolloutStrategy
		edit     func(*v1alpha1.MCPServerSpec)
		want     string
	}{
		"a claim":               {v1alpha1.StrategySuccessive, claims(false), `PersistentVolumeClaim "notes"`},
		"a claim that is read":  {v1alpha1.StrategySuccessive, claims(true), ""},
		"a claim, in place":     {v1alpha1.StrategyReplace, claims(false), ""},
		"a device":              {v1alpha1.StrategySuccessive, limits("example.com/gpu"), "resource example.com/gpu"},
		"memory":                {v1alpha1.StrategySuccessive, limits(corev1.ResourceMemory), ""},
		"nothing of the kind":   {v1alpha1.StrategySuccessive, func(*v1alpha1.MCPServerSpec) {}, ""},
		"nobody asks for a way": {"", limits("example.com/gpu"), ""},
	} {
		server := &v1alpha1.MCPServer{}
		server.Name, server.Namespace, server.UID = "echo", "ns", "uid"
		server.Spec.Image, server.Spec.Port, server.Spec.Transport = "echo:1", 8080, v1alpha1.TransportStreamableHTTP
		server.Spec.Rollout = &v1alpha1.RolloutSpec{Strategy: tc.strategy}
		tc.edit(&server.Spec)
		var said []string
		for _, p := range Render(Input{Object: server}, podtemplate.Release{RunnerImage: "runner:1"}).Problems {
			if p.Field == "spec.rollout.strategy" {
				said = append(said, p.Message)
			}
		}
		if got := strings.Join(said, "; "); !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
			t.Errorf("%s: it says %q", name, got)
		}
	}
}
