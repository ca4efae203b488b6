package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

func hashOf(t *testing.T, server *v1alpha1.MCPServer, opts Options) string {
	t.Helper()
	run, problems := Content(server, opts)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	hash, err := run.ContentHash()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// change is one edit of a full server or of the operator's options.
type change func(*v1alpha1.MCPServer, *Options)

func after(t *testing.T, edit change) string {
	t.Helper()
	server, opts := read(t, "full"), options
	edit(server, &opts)
	return hashOf(t, server, opts)
}

func TestContentChangesWithWhatPodsDependOn(t *testing.T) {
	before := hashOf(t, read(t, "full"), options)
	for name, edit := range map[string]change{
		"image":           func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Image += "x" },
		"an argument":     func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Args[0] = "--other" },
		"a variable":      func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Env[1].Value = "info" },
		"its order":       func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Env[0], s.Spec.Env[1] = s.Spec.Env[1], s.Spec.Env[0] },
		"port":            func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Port++ },
		"resources":       func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Resources = nil },
		"restartedAt":     func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.RestartedAt = &metav1.Time{Time: time.Unix(1, 0)} },
		"overlay":         func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.PodTemplate = nil },
		"proxy overlay":   func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Proxy.PodTemplate = nil },
		"proxy resources": func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Proxy.Resources = nil },
		"proxy port":      func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Proxy.Port++ },
		"origins":         func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Proxy.AllowedOrigins = nil },
		"protection":      func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.AuthzConfig = &v1alpha1.AuthzConfig{} },
		"another object":  func(s *v1alpha1.MCPServer, _ *Options) { s.UID = "other" },
		"runner's image":  func(_ *v1alpha1.MCPServer, o *Options) { o.RunnerImage += "x" },
		"pull policy":     func(_ *v1alpha1.MCPServer, o *Options) { o.RunnerPullPolicy = corev1.PullAlways },
		"pull secrets":    func(_ *v1alpha1.MCPServer, o *Options) { o.RunnerPullSecrets = []string{"regcred"} },
	} {
		t.Run(name, func(t *testing.T) {
			if after(t, edit) == before {
				t.Error("the hash stayed")
			}
		})
	}
}

func TestContentStaysForWhatRestartsNothing(t *testing.T) {
	before := hashOf(t, read(t, "full"), options)
	for name, edit := range map[string]change{
		"nothing":        func(*v1alpha1.MCPServer, *Options) {},
		"replicas":       func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Replicas = nil },
		"proxy replicas": func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Proxy.Replicas = nil },
		"proxy service":  func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Proxy.Service = nil },
		"suspend":        func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.Suspend = true },
		"group":          func(s *v1alpha1.MCPServer, _ *Options) { s.Spec.GroupRef = nil },
		"labels":         func(s *v1alpha1.MCPServer, _ *Options) { s.Labels = map[string]string{"a": "b"} },
		"annotations":    func(s *v1alpha1.MCPServer, _ *Options) { s.Annotations = map[string]string{"a": "b"} },
		"generation":     func(s *v1alpha1.MCPServer, _ *Options) { s.Generation++ },
		"status":         func(s *v1alpha1.MCPServer, _ *Options) { s.Status.URL = "x" },
		"order of a set": func(s *v1alpha1.MCPServer, _ *Options) { swap(s.Spec.Proxy.AllowedOrigins) },
		"spelling of the overlay": func(s *v1alpha1.MCPServer, _ *Options) {
			s.Spec.PodTemplate.Raw = append([]byte("  "), s.Spec.PodTemplate.Raw...)
		},
		"zone of a time": func(s *v1alpha1.MCPServer, _ *Options) {
			s.Spec.RestartedAt = &metav1.Time{Time: s.Spec.RestartedAt.In(time.FixedZone("", 5))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if after(t, edit) != before {
				t.Error("the hash changed")
			}
		})
	}
}

func swap(items []string) { items[0], items[1] = items[1], items[0] }

func TestContentNeverFails(t *testing.T) {
	for name, tc := range map[string]struct {
		server *v1alpha1.MCPServer
		want   string
	}{
		"nothing at all":   {&v1alpha1.MCPServer{}, ""},
		"an empty proxy":   {&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{Proxy: &v1alpha1.ProxySpec{}}}, ""},
		"an empty service": {&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{Proxy: &v1alpha1.ProxySpec{Service: &v1alpha1.ProxyService{}}}}, ""},
		"no overlay":       {overlaid(""), ""},
		"null overlay":     {overlaid("null"), ""},
		"broken overlay":   {overlaid("{"), "spec.podTemplate: cannot be read as a PodTemplateSpec: unexpected end of JSON input"},
		"empty lists": {&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{
			Env: []corev1.EnvVar{}, Resources: &v1alpha1.Resources{Limits: corev1.ResourceList{}},
		}}, ""},
		"hostPath": {&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{Volumes: []corev1.Volume{
			{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
		}}}, "spec.volumes[name=root].hostPath: pods mount nothing of the node: use a persistentVolumeClaim, emptyDir, configMap or secret"},
		"empty source": {&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{Volumes: []corev1.Volume{
			{Name: "a", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		}}}, "spec.volumes[name=a].projected: an empty volume source cannot be applied: write what it holds"},
		"empty envFrom": {
			&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{EnvFrom: []corev1.EnvFromSource{{}}}},
			"spec.envFrom[0]: an empty item cannot be applied: remove it",
		},
		"empty valueFrom": {
			&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{Env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{}}}}},
			"spec.env[name=A].valueFrom: names no source: write one, or value",
		},
		"service labels": {&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{Proxy: &v1alpha1.ProxySpec{Service: &v1alpha1.ProxyService{
			Labels:      map[string]string{"freehold.dev/server": "x", "a": "b"},
			Annotations: map[string]string{"app.kubernetes.io/x": "x"},
		}}}}, `spec.proxy.service.annotations["app.kubernetes.io/x"]: only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix
spec.proxy.service.labels["freehold.dev/server"]: only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, problemsOf(tc.server)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			run, _ := Content(tc.server, Options{})
			_, proxyErr := Proxy(tc.server, run, Options{})
			_, backendErr := Backend(run)
			if tc.want == "" && (proxyErr != nil || backendErr != nil) {
				t.Errorf("Proxy: %v, Backend: %v", proxyErr, backendErr)
			}
			ProxyService(tc.server)
			BackendService(run)
		})
	}
}

func overlaid(text string) *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{PodTemplate: &runtime.RawExtension{Raw: []byte(text)}}}
}

// The server comes from a cache that others read.
func TestBuildersDoNotChangeTheServer(t *testing.T) {
	server := read(t, "full")
	before := server.DeepCopy()
	objects(t, server)
	if diff := cmp.Diff(before, server); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
