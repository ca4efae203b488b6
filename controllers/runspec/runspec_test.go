package runspec

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

func TestForFillsInTheDefaultsOfTheSchema(t *testing.T) {
	server := &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "echo", UID: "1111"},
		Spec:       v1alpha1.MCPServerSpec{Image: "i"},
	}
	want := runconfig.RunConfig{
		Version: runconfig.Version,
		Server:  runconfig.Server{Namespace: "team-a", Name: "echo", UID: "1111"},
		Backend: runconfig.Backend{Image: "i", Port: 8080, Path: "/mcp", Transport: "streamable-http"},
		Proxy:   runconfig.Proxy{Port: 8000, Path: "/mcp"},
	}
	if diff := cmp.Diff(want, For(server)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestForTakesEveryPartOfTheContent(t *testing.T) {
	limits := corev1.ResourceList{}
	server := &v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{
		Image:     "i",
		Command:   []string{"c"},
		Args:      []string{"a"},
		Env:       []corev1.EnvVar{{Name: "E"}},
		EnvFrom:   []corev1.EnvFromSource{{Prefix: "P"}},
		Transport: v1alpha1.TransportSSE,
		Port:      1,
		ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
			Path:        "/p",
			RestartedAt: &metav1.Time{Time: time.Date(2026, 5, 6, 9, 8, 7, 6, time.FixedZone("", 7200))},
			Proxy: &v1alpha1.ProxySpec{
				Port:                  2,
				PublicURL:             "https://u",
				AllowedOrigins:        []string{"b", "a", "b"},
				TrustForwardedHeaders: true,
				HostHeader:            v1alpha1.HostClient,
				Audit:                 v1alpha1.AuditDisabled,
			},
		},
		Resources:          &v1alpha1.Resources{Limits: limits},
		Volumes:            []corev1.Volume{{Name: "v"}},
		VolumeMounts:       []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
		ImagePullPolicy:    corev1.PullNever,
		ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "s"}},
		ServiceAccountName: "n",
		PodTemplate:        &runtime.RawExtension{Raw: []byte(`{"a":1}`)},
	}}
	want := runconfig.RunConfig{
		Version: runconfig.Version,
		Backend: runconfig.Backend{
			Image:              "i",
			Command:            []string{"c"},
			Args:               []string{"a"},
			Env:                []corev1.EnvVar{{Name: "E"}},
			EnvFrom:            []corev1.EnvFromSource{{Prefix: "P"}},
			Port:               1,
			Path:               "/p",
			Transport:          "sse",
			Resources:          runconfig.Resources{Limits: limits},
			Volumes:            []corev1.Volume{{Name: "v"}},
			VolumeMounts:       []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
			ImagePullPolicy:    corev1.PullNever,
			ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "s"}},
			ServiceAccountName: "n",
			PodTemplate:        []byte(`{"a":1}`),
			RestartedAt:        "2026-05-06T07:08:07Z",
			Bridge:             &runconfig.Bridge{},
		},
		Proxy: runconfig.Proxy{
			Port: 2, Path: "/p", PublicURL: "https://u",
			AllowedOrigins: []string{"a", "b"}, TrustForwardedHeaders: true, ClientHost: true, NoAudit: true,
		},
	}
	if diff := cmp.Diff(want, For(server)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A config that is changed afterwards must not reach into a cache.
func TestForSharesNothingWithTheServer(t *testing.T) {
	server := &v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{
		Args:              []string{"a"},
		ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{Proxy: &v1alpha1.ProxySpec{AllowedOrigins: []string{"a"}}},
	}}
	run := For(server)
	run.Backend.Args[0], run.Proxy.AllowedOrigins[0] = "x", "x"
	if server.Spec.Args[0] != "a" || server.Spec.Proxy.AllowedOrigins[0] != "a" {
		t.Errorf("the server changed: %v", server.Spec)
	}
}
