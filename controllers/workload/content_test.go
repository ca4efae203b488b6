package workload

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

func sound(t *testing.T, server *v1alpha1.MCPServer, opts given) Rendered {
	t.Helper()
	rendered := render(server, opts)
	if len(rendered.Problems) > 0 {
		t.Fatalf("problems: %v", rendered.Problems)
	}
	return rendered
}

// change is one edit of a full server or of what it is rendered with.
type change func(*v1alpha1.MCPServer, *given)

func after(t *testing.T, edit change) Rendered {
	t.Helper()
	server, opts := read(t, "full"), options
	edit(server, &opts)
	return sound(t, server, opts)
}

// What a change does to pods, in the words of docs/restarts.md: to the proxy's, and to the backend's.
const (
	none  = "stay | stay"
	proxy = "replaced | stay"
	both  = "replaced | replaced"
	never = "cannot be changed | cannot be changed"
)

// changes are what is changed of a full server. Those that are a field or a value of the chart are in docs/restarts.md.
var changes = map[string]struct {
	does string
	edit change
}{
	"spec.image":   {both, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Image += "x" }},
	"spec.command": {both, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Command[0] = "/other" }},
	"spec.args":    {both, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Args[0] = "--other" }},
	"spec.env":     {both, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Env[1].Value = "info" }},
	"the order of variables": {both, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Env[0], s.Spec.Env[1] = s.Spec.Env[1], s.Spec.Env[0]
	}},
	"spec.envFrom":   {both, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.EnvFrom = nil }},
	"spec.port":      {both, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Port++ }},
	"spec.resources": {both, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Resources = nil }},
	"spec.volumes": {both, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Volumes = append(s.Spec.Volumes, corev1.Volume{Name: "more"})
	}},
	"spec.volumeMounts": {
		both,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.VolumeMounts = s.Spec.VolumeMounts[1:] },
	},
	"spec.imagePullPolicy": {
		both,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.ImagePullPolicy = corev1.PullNever },
	},
	"spec.imagePullSecrets": {
		both,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.ImagePullSecrets = nil },
	},
	"spec.serviceAccountName": {
		both,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.ServiceAccountName = "other" },
	},
	"spec.podTemplate": {both, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.PodTemplate = nil }},
	"spec.restartedAt": {both, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.RestartedAt = &metav1.Time{Time: time.Unix(1, 0)}
	}},

	"spec.transport": {both, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Transport = v1alpha1.TransportSSE
	}},
	"spec.stdio": {both, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Transport, s.Spec.Stdio = v1alpha1.TransportStdio, &v1alpha1.StdioSpec{Process: v1alpha1.StdioShared}
	}},

	"spec.path":          {proxy, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Path = "/other" }},
	"spec.oidcConfigRef": {proxy, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.OIDCConfigRef = nil }},
	"MCPOIDCConfig.spec": {proxy, func(_ *v1alpha1.MCPServer, o *given) {
		other := login.DeepCopy()
		other.Spec.OIDC.UsernameClaim = "email"
		o.Configs = registry.Read(other)
	}},
	"spec.toolConfigRef": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.ToolConfigRef = &v1alpha1.LocalReference{Name: "a"}
	}},
	"spec.externalAuthConfigRef": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.ExternalAuthConfigRef = &v1alpha1.LocalReference{Name: "a"}
	}},
	"spec.volumeClaimTemplates": {never, nil}, // a rule of the schema
	"spec.persistentVolumeClaimRetentionPolicy": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.VolumeClaimRetention{WhenDeleted: "Retain"}
	}},
	"spec.authzConfigRef": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.AuthzConfigRef = &v1alpha1.LocalReference{Name: "a"}
	}},
	"spec.authzConfig": {
		proxy,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.AuthzConfig = &v1alpha1.AuthzConfig{} },
	},
	"spec.proxy.port": {
		proxy,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Proxy.Port++ },
	},
	"spec.proxy.publicURL": {
		proxy,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Proxy.PublicURL = "" },
	},
	"spec.proxy.httpRoute": {none, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Proxy.HTTPRoute = routed(publicHost(s))
	}},
	"an HTTPRoute under another host": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Proxy.HTTPRoute = routed(publicHost(s), "other.example.com")
	}},
	"an HTTPRoute in the place of publicURL": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Proxy.HTTPRoute = routed("other.example.com")
		s.Spec.Proxy.PublicURL = ""
	}},
	"spec.proxy.allowedOrigins": {
		proxy,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Proxy.AllowedOrigins = nil },
	},
	"spec.proxy.trustForwardedHeaders": {
		proxy,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Proxy.TrustForwardedHeaders = false },
	},
	"spec.proxy.hostHeader": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Proxy.HostHeader = v1alpha1.HostClient
	}},
	"spec.proxy.audit": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Proxy.Audit = v1alpha1.AuditDisabled
	}},
	"spec.proxy.probe": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Proxy.Probe = &v1alpha1.ProxyProbe{PeriodSeconds: new(int32(0))}
	}},
	"spec.proxy.terminationGracePeriodSeconds": {proxy, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Proxy.TerminationGracePeriodSeconds = 90
	}},
	"spec.proxy.resources": {
		proxy,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Proxy.Resources = nil },
	},
	"spec.proxy.podTemplate": {
		proxy,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Proxy.PodTemplate = nil },
	},
	"proxyDefaults.podTemplate": {proxy, func(_ *v1alpha1.MCPServer, o *given) {
		o.ProxyTemplate = []byte(`{"spec":{"schedulerName":"other"}}`)
	}},
	"proxyDefaults.replicas": {none, func(_ *v1alpha1.MCPServer, o *given) { o.ProxyReplicas = 2 }},
	"runner.image":           {proxy, func(_ *v1alpha1.MCPServer, o *given) { o.RunnerImage += "x" }},
	"the runner's pull policy": {
		proxy,
		func(_ *v1alpha1.MCPServer, o *given) { o.RunnerPullPolicy = corev1.PullAlways },
	},
	"the runner's pull secrets": {
		proxy,
		func(_ *v1alpha1.MCPServer, o *given) { o.RunnerPullSecrets = []string{"regcred"} },
	},
	"the server was made anew": {proxy, func(s *v1alpha1.MCPServer, _ *given) { s.UID = "other" }},

	"spec.replicas": {none, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Replicas = nil }},
	"spec.proxy.replicas": {
		none,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Proxy.Replicas = nil },
	},
	"spec.proxy.service": {
		none,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Proxy.Service = nil },
	},
	"spec.suspend": {none, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Suspend = true }},
	"spec.progressDeadlineSeconds": {
		none,
		func(s *v1alpha1.MCPServer, _ *given) { s.Spec.ProgressDeadlineSeconds = new(int32(1)) },
	},
	"spec.network": {none, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Network = &v1alpha1.NetworkSpec{BackendIngress: "Any"}
	}},
	"spec.rollout": {none, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.Rollout = &v1alpha1.RolloutSpec{Strategy: v1alpha1.StrategySuccessive}
	}},
	"spec.groupRef": {none, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.GroupRef = nil }},
	"metadata.labels": {
		none,
		func(s *v1alpha1.MCPServer, _ *given) { s.Labels = map[string]string{"a": "b"} },
	},
	"metadata.annotations": {
		none,
		func(s *v1alpha1.MCPServer, _ *given) { s.Annotations = map[string]string{"a": "b"} },
	},
	"nothing":        {none, func(*v1alpha1.MCPServer, *given) {}},
	"generation":     {none, func(s *v1alpha1.MCPServer, _ *given) { s.Generation++ }},
	"status":         {none, func(s *v1alpha1.MCPServer, _ *given) { s.Status.URL = "x" }},
	"order of a set": {none, func(s *v1alpha1.MCPServer, _ *given) { swap(s.Spec.Proxy.AllowedOrigins) }},
	"spelling of the overlay": {none, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.PodTemplate.Raw = append([]byte("  "), s.Spec.PodTemplate.Raw...)
	}},
	"zone of a time": {none, func(s *v1alpha1.MCPServer, _ *given) {
		s.Spec.RestartedAt = &metav1.Time{Time: s.Spec.RestartedAt.In(time.FixedZone("", 5))}
	}},
}

func TestAChangeReplacesOnlyThePodsThatItChanges(t *testing.T) {
	before := sound(t, read(t, "full"), options)
	for name, tc := range changes {
		if tc.does == never {
			continue
		}
		t.Run(name, func(t *testing.T) {
			changed := after(t, tc.edit)
			words := map[bool]string{true: "stay", false: "replaced"}
			got := words[changed.Hash == before.Hash] + " | " +
				words[cmp.Equal(backendTemplate(t, changed, 8), backendTemplate(t, before, 7))]
			if got != tc.does {
				t.Errorf("the pods %s, want %s", got, tc.does)
			}
		})
	}
}

// backendTemplate is the pod template as it is written under a number.
func backendTemplate(t *testing.T, r Rendered, generation int64) any {
	t.Helper()
	set, err := Backend(r.Claimed(generation), Slot1)
	if err != nil {
		t.Fatal(err)
	}
	return set.Spec.Template
}

// inTable is a row of the table with its first cell, in which fields are quoted.
var inTable = regexp.MustCompile("(?m)^\\| (`.*`) \\| (.*) \\|$")

func TestTheDocumentedRestartsAreTheTrueOnes(t *testing.T) {
	page, err := os.ReadFile("../../docs/restarts.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, row := range inTable.FindAllStringSubmatch(string(page), -1) {
		for field := range strings.SplitSeq(row[1], ", ") {
			told[strings.Trim(field, "`")] = row[2]
		}
	}
	want := map[string]string{}
	for name, tc := range changes {
		if !strings.Contains(name, " ") && strings.Contains(name, ".") {
			want[name] = tc.does
		}
	}
	for _, spec := range []struct {
		prefix string
		fields reflect.Type
	}{{"spec.", reflect.TypeFor[v1alpha1.MCPServerSpec]()}, {"spec.proxy.", reflect.TypeFor[v1alpha1.ProxySpec]()}} {
		for _, field := range reflect.VisibleFields(spec.fields) {
			if field.Anonymous {
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name = spec.prefix + name; want[name] == "" && name != "spec.proxy" {
				t.Errorf("%s has no row in changes", name)
			}
		}
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("docs/restarts.md (-true +told):\n%s", diff)
	}
}

func swap(items []string) { items[0], items[1] = items[1], items[0] }

func TestRenderNeverFails(t *testing.T) {
	for name, tc := range map[string]struct {
		server *v1alpha1.MCPServer
		want   string
	}{
		"nothing at all": {&v1alpha1.MCPServer{}, ""},
		"an empty proxy": {&v1alpha1.MCPServer{
			Spec: v1alpha1.MCPServerSpec{ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{Proxy: &v1alpha1.ProxySpec{}}},
		}, ""},
		"an empty service": {&v1alpha1.MCPServer{
			Spec: v1alpha1.MCPServerSpec{ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
				Proxy: &v1alpha1.ProxySpec{Service: &v1alpha1.ProxyService{}},
			}},
		}, ""},
		"no overlay":   {overlaid(""), ""},
		"null overlay": {overlaid("null"), ""},
		"broken overlay": {
			overlaid("{"),
			"spec.podTemplate: cannot be read as a PodTemplateSpec: unexpected end of JSON input",
		},
		"empty lists": {&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{
			Env: []corev1.EnvVar{}, Resources: &v1alpha1.Resources{Limits: corev1.ResourceList{}},
		}}, ""},
		"hostPath": {&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{Volumes: []corev1.Volume{
			{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
		}}}, "spec.volumes[name=root].hostPath: breaks the baseline Pod Security Standard, control \"hostPath volumes\": " +
			"use a persistentVolumeClaim, emptyDir, configMap or secret"},
		"empty source": {&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{Volumes: []corev1.Volume{
			{Name: "a", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		}}}, "spec.volumes[name=a].projected: an empty volume source cannot be applied: write what it holds"},
		"empty envFrom": {
			&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{EnvFrom: []corev1.EnvFromSource{{}}}},
			"spec.envFrom[0]: an empty item cannot be applied: remove it",
		},
		"empty valueFrom": {
			&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{
				Env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{}}},
			}},
			"spec.env[name=A].valueFrom: names no source: write one, or value",
		},
		"service labels": {
			&v1alpha1.MCPServer{
				Spec: v1alpha1.MCPServerSpec{ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
					Proxy: &v1alpha1.ProxySpec{Service: &v1alpha1.ProxyService{
						Labels:      map[string]string{"freehold.dev/server": "x", "a": "b"},
						Annotations: map[string]string{"app.kubernetes.io/x": "x"},
					}},
				}},
			},
			`spec.proxy.service.annotations["app.kubernetes.io/x"]: only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix; spec.proxy.service.labels["freehold.dev/server"]: only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := Render(Input{Object: tc.server}, podtemplate.Release{})
			if diff := cmp.Diff(tc.want, rendered.Problems.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			_, proxyErr := rendered.Proxy(1)
			_, backendErr := Backend(rendered.Content, Slot1)
			if (proxyErr == nil) != (tc.want == "") || tc.want == "" && backendErr != nil {
				t.Errorf("Proxy: %v, Backend: %v", proxyErr, backendErr)
			}
			ProxyService(OwnerOf(tc.server), tc.server.Spec.Proxy)
			BackendService(rendered.Content, Slot1)
		})
	}
}

// The runner builds the backend of a run config that another release wrote.
func TestABackendWithProblemsIsNotBuilt(t *testing.T) {
	var problems podtemplate.Problems
	if _, err := Backend(render(overlaid("{"), options).Content, Slot1); !errors.As(err, &problems) {
		t.Errorf("got %v, want it refused", err)
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

// No token of a service account has a scope: with scopes nobody could call.
func TestServiceAccountsHaveNoScopes(t *testing.T) {
	accounts := &v1alpha1.MCPOIDCConfig{Spec: v1alpha1.MCPOIDCConfigSpec{Kubernetes: &v1alpha1.KubernetesIssuer{
		ServiceAccounts: []v1alpha1.ServiceAccountReference{{Namespace: "a", Name: "b"}},
	}}}
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}, Spec: v1alpha1.MCPServerSpec{
		Image: "i", ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
			OIDCConfigRef: &v1alpha1.OIDCConfigReference{LocalReference: v1alpha1.LocalReference{Name: "own"}},
		},
	}}
	opts := given{podtemplate.Release{RunnerImage: "r"}, registry.Read(accounts)}
	if problems := render(server, opts).Problems; len(problems) > 0 {
		t.Errorf("without scopes: %v", problems)
	}
	server.Spec.OIDCConfigRef.Scopes = []string{"tools"}
	if problems := render(server, opts).Problems; len(problems) != 1 || problems[0].Field != "spec.oidcConfigRef.scopes" {
		t.Errorf("with scopes: %v", problems)
	}
}

// A run config is in the pod template where it is short and the user's annotations leave
// room. Where it is is part of what is claimed.
func TestAShortRunConfigIsInThePodTemplate(t *testing.T) {
	annotated := func(size int) string {
		return "proxy: {podTemplate: {metadata: {annotations: {a: " + strings.Repeat("x", size) + "}}}}"
	}
	for name, tc := range map[string]struct {
		spec  string
		short bool
	}{
		"short": {"args: [a]", true},
		"long":  {"args: [" + strings.Repeat("x", 17<<10) + "]", false},
		"with as many annotations as an overlay holds": {annotated(LargestOverlay - 100), true},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := sound(t, serverWith(t, tc.spec), options)
			proxy, err := rendered.Proxy(7)
			if err != nil {
				t.Fatal(err)
			}
			template := proxy.Spec.Template
			text, volume := template.Annotations[podtemplate.AnnotationRunConfig], template.Spec.Volumes[0]
			if rendered.Short() != tc.short || (volume.DownwardAPI != nil) != tc.short || (volume.ConfigMap == nil) != tc.short {
				t.Fatalf("short: %t; the volume is %+v", rendered.Short(), volume)
			}
			size := 0
			for key, value := range template.Annotations {
				size += len(key) + len(value)
			}
			if size > validation.TotalAnnotationSizeLimitB {
				t.Errorf("the annotations have %d bytes, more than the API server takes", size)
			}
			if !tc.short {
				if text != "" {
					t.Errorf("it carries %d bytes besides", len(text))
				}
				return
			}
			if run, err := runconfig.Decode([]byte(text)); err != nil || run.Verify() != nil || run.Workload.Generation != 7 {
				t.Errorf("what it carries is %+v: %v", run.Workload, err)
			}
		})
	}
}
