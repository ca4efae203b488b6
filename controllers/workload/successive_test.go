package workload

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// Two contents at a time cannot have one volume or one device. Where nothing is written what they have decides.
func TestStrategy(t *testing.T) {
	volume := func(source corev1.VolumeSource) func(*v1alpha1.MCPServerSpec) {
		return func(spec *v1alpha1.MCPServerSpec) {
			spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: source}}
		}
	}
	claim := func(readOnly bool) func(*v1alpha1.MCPServerSpec) {
		return volume(corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "notes", ReadOnly: readOnly},
		})
	}
	limits := func(name corev1.ResourceName) func(*v1alpha1.MCPServerSpec) {
		return func(spec *v1alpha1.MCPServerSpec) {
			spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{name: resource.MustParse("1")}}
		}
	}
	overlay := func(pod string) func(*v1alpha1.MCPServerSpec) {
		return func(spec *v1alpha1.MCPServerSpec) {
			spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"spec": ` + pod + `}`)}
		}
	}
	const beside, inPlace = v1alpha1.StrategySuccessive, v1alpha1.StrategyReplace
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.MCPServerSpec)
		// byDefault is the strategy where none is written, and refusal is said of Successive where that is.
		byDefault v1alpha1.RolloutStrategy
		refusal   string
	}{
		"nothing of the kind":  {func(*v1alpha1.MCPServerSpec) {}, beside, ""},
		"memory":               {limits(corev1.ResourceMemory), beside, ""},
		"a device":             {limits("example.com/gpu"), inPlace, "resource example.com/gpu"},
		"a claim":              {claim(false), inPlace, `PersistentVolumeClaim "notes"`},
		"a claim that is read": {claim(true), inPlace, ""},
		"another disk": {
			volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "t", IQN: "iqn.2000-01.com:a"}}),
			inPlace, "",
		},
		"a Secret":  {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key"}}), beside, ""},
		"no source": {volume(corev1.VolumeSource{}), beside, ""},
		"claims of each pod": {func(spec *v1alpha1.MCPServerSpec) {
			spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{{Metadata: v1alpha1.VolumeClaimMetadata{
				Name: "data",
			}}}
		}, inPlace, ""}, // the API server refuses it
		"a claim of the overlay": {
			overlay(`{"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "notes"}}]}`), inPlace,
			`PersistentVolumeClaim "notes"`,
		},
		"a claim that goes with the pod": {
			overlay(`{"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate":
				{"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]}`), beside, "",
		},
		"a device of a container beside": {
			overlay(`{"containers": [{"name": "b", "image": "b", "resources": {"limits": {"example.com/gpu": "1"}}}]}`),
			inPlace, "resource example.com/gpu",
		},
		"a resource claim": {
			overlay(`{"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}`), inPlace,
			`resource claim "gpu"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, written := range []*v1alpha1.RolloutSpec{nil, {}, {Strategy: inPlace}, {Strategy: beside}} {
				server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "ns", UID: "uid"}}
				server.Spec.Image, server.Spec.Port, server.Spec.Transport = "echo:1", 8080, v1alpha1.TransportStreamableHTTP
				server.Spec.Rollout = written
				tc.edit(&server.Spec)
				rendered := Render(Input{Object: server}, podtemplate.Release{RunnerImage: "runner:1"})
				want, refusal := tc.byDefault, ""
				if written != nil && written.Strategy != "" {
					want = written.Strategy
				}
				if want == beside {
					refusal = tc.refusal
				}
				var said string
				if len(rendered.Problems) > 0 {
					said = rendered.Problems[0].String()
				}
				if rendered.Strategy != want || !strings.Contains(said, refusal) || (refusal == "") != (said == "") {
					t.Errorf("with %+v it is %q, and it says %q", written, rendered.Strategy, said)
				}
			}
		})
	}
	if got := Render(Input{Object: &v1alpha1.MCPRemoteProxy{}}, podtemplate.Release{}).Strategy; got != "" {
		t.Errorf("without a backend it is %q", got)
	}
}
