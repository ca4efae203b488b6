package podtemplate

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An intent's claims are one value to server-side apply: a runner that reads them back in
// protobuf has to see what it stated, or each of its processes writes them again.
func TestClaimsAreReadAsTheyAreStated(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	templates := []corev1.PersistentVolumeClaimTemplate{
		{
			ObjectMeta: metav1.ObjectMeta{
				Name: "data", Labels: map[string]string{"team": "red"},
				Annotations: map[string]string{},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1024Mi")},
				},
			},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "raw"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &block,
				StorageClassName: new(string),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1073741824")},
				},
			},
		},
	}
	claims, err := Claims(templates)
	if err != nil {
		t.Fatal(err)
	}
	for i, claim := range claims {
		stated, err := json.Marshal(claim)
		if err != nil {
			t.Fatal(err)
		}
		stored, read := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
		if err := json.Unmarshal(stated, stored); err != nil {
			t.Fatal(err)
		}
		stored.APIVersion, stored.Kind = "v1", "PersistentVolumeClaim" // which the API server fills in
		wire, err := stored.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := read.Unmarshal(wire); err != nil {
			t.Fatal(err)
		}
		if read.Spec.VolumeMode == nil || read.Status.Phase == "" {
			t.Errorf("the API server fills in what is not stated: %s", stated)
		}
		back, err := Canonical(read)
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(stated, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Errorf("claim %d (-stated +read):\n%s", i, diff)
		}
	}
}
