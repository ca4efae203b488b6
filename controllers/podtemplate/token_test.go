package podtemplate

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// others are containers of a user beside the runner.
const others = `{spec: {
  initContainers: [{name: first, image: x, volumeMounts: [{name: a, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}],
  containers: [{name: side, image: x}, {name: proxy, args: [--log-level=debug], env: [{name: HTTPS_PROXY, value: x}], lifecycle: {preStop: {sleep: {seconds: 1}}}}],
  volumes: [{name: a, projected: {sources: [{configMap: {name: a}}, {clusterTrustBundle: {name: a, path: b}}]}}]}}`

// proxyTemplate is the proxy's pod template with an overlay, in core types.
func proxyTemplate(t *testing.T, overlay string) *corev1.PodTemplateSpec {
	t.Helper()
	server := minimal(t)
	server.Spec.Proxy = &v1alpha1.ProxySpec{PodTemplate: raw(t, overlay)}
	proxy, problems := proxyOf(server)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	out := &corev1.PodTemplateSpec{}
	if err := json.Unmarshal([]byte(asText(t, proxy)), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheRunnersTokenIsInItsContainerOnly(t *testing.T) {
	for name, overlay := range map[string]string{"alone": `{}`, "beside others": others} {
		t.Run(name, func(t *testing.T) {
			pod := proxyTemplate(t, overlay).Spec
			if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken ||
				pod.ServiceAccountName != "echo-runner" {
				t.Errorf("automount %v of %s: the API server would mount the token in every container",
					pod.AutomountServiceAccountToken, pod.ServiceAccountName)
			}
			if got := holders(pod); !cmp.Equal(got, []string{"proxy at " + tokenPath}) {
				t.Errorf("the token is in %q", got)
			}
		})
	}
}

// holders are the mounts of all volumes with a token.
func holders(pod corev1.PodSpec) []string {
	tokens := map[string]bool{}
	for _, volume := range pod.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			tokens[volume.Name] = tokens[volume.Name] || source.ServiceAccountToken != nil || source.PodCertificate != nil
		}
	}
	var found []string
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		for _, mount := range container.VolumeMounts {
			if tokens[mount.Name] {
				found = append(found, container.Name+" at "+mount.MountPath)
			}
		}
	}
	return found
}

// runners are overlays that would bring something into the runner's container.
var runners = map[string]struct{ says, want string }{
	"a mount of ours": {
		`volumeMounts: [{name: run-config, mountPath: /a}]`,
		`volumeMounts[mountPath=/a]: nothing is mounted in the runner: remove it, or use a container of your own`,
	},
	"over the token": {
		`volumeMounts: [{name: a, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]`,
		`volumeMounts[mountPath=/var/run/secrets/kubernetes.io/serviceaccount]: nothing is mounted in the runner: remove it, or use a container of your own`,
	},
	"a file of kubelet": {
		`terminationMessagePath: /runner`,
		`terminationMessagePath: the runner runs as it is: remove it`,
	},
	"a device": {
		`volumeDevices: [{name: a, devicePath: /a}]`,
		`volumeDevices: the runner runs as it is: remove it`,
	},
	"a kubeconfig": {
		`env: [{name: KUBECONFIG, value: /a}]`,
		`env[name=KUBECONFIG]: this variable would give the runner's token away: remove it`,
	},
	"another port": {
		`env: [{name: KUBERNETES_SERVICE_PORT, value: "1"}]`,
		`env[name=KUBERNETES_SERVICE_PORT]: this variable would give the runner's token away: remove it`,
	},
}

func TestNothingIsBroughtIntoTheRunner(t *testing.T) {
	for name, tc := range runners {
		t.Run(name, func(t *testing.T) {
			refusedProxy(t, `{spec: {volumes: [{name: a}], containers: [{name: proxy, `+tc.says+`}]}}`,
				`spec.proxy.podTemplate.spec.containers[name=proxy].`+tc.want)
		})
	}
}

func TestTheRunnersTokenIsRefusedToOthers(t *testing.T) {
	for name, tc := range map[string]struct{ overlay, want string }{
		"the same again": {
			`{spec: {automountServiceAccountToken: false}}`,
			`spec.automountServiceAccountToken: Freehold states this: remove it`,
		},
		"of an audience": {
			`{spec: {volumes: [{name: a, projected: {sources: [{configMap: {name: a}}, {serviceAccountToken: {path: a, audience: b}}]}}]}}`, `spec.volumes[name=a].projected.sources[1].serviceAccountToken: this is the runner's identity: remove it, and use a pod of your own for what calls the API server`,
		},
		"our volume": {
			`{spec: {volumes: [{name: runner-token, emptyDir: {}}]}}`,
			`spec.volumes[name=runner-token]: Freehold has this item: choose another`,
		},
		"a mount before": {
			`{spec: {initContainers: [{name: first, image: x, volumeMounts: [{name: runner-token, mountPath: /a}]}]}}`,
			`spec.initContainers[name=first].volumeMounts[mountPath=/a].name: the runner's token is for the container proxy only: choose another volume`,
		},
	} {
		t.Run(name, func(t *testing.T) { refusedProxy(t, tc.overlay, "spec.proxy.podTemplate."+tc.want) })
	}
}

func refusedProxy(t *testing.T, overlay, want string) {
	t.Helper()
	server := minimal(t)
	server.Spec.Proxy = &v1alpha1.ProxySpec{PodTemplate: raw(t, overlay)}
	if diff := cmp.Diff(want, problemsOf(server)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// The keys are those of injectors that mount, copy or show the runner's token to
// a container of which the same annotations say the image or the output.
func TestNoInjectorIsToldOfTheRunnersToken(t *testing.T) {
	const says = "an injector that acts on it could read the runner's token: write a label, or a key without a domain; " +
		"or have who may write Deployments apply it to the proxy's under a field manager of their own"
	for key, want := range map[string]string{
		"sidecar.istio.io/userVolume": "an injector would mount what this names: remove it, and use " +
			"volumes",
		"sidecar.istio.io/userVolumeMount": "an injector would mount what this names: remove it, and use " +
			"volumes",
		"sidecar.istio.io/proxyImage":                       says,
		"proxy.istio.io/config":                             says,
		"vault.hashicorp.com/agent-inject":                  says,
		"vault.hashicorp.com/agent-copy-volume-mounts":      says,
		"vault.hashicorp.com/agent-inject-template-a":       says,
		"config.linkerd.io/proxy-image":                     says,
		"dapr.io/volume-mounts":                             says,
		"instrumentation.opentelemetry.io/inject-sdk":       says,
		"example.com/of-an-injector-that-nobody-here-knows": says,
		"linkerd.io/inject-too":                             says,
		"linkerd.io/inject":                                 "",
		"sidecar.istio.io/inject":                           "",
		"prometheus.io/scrape":                              "",
		"cluster-autoscaler.kubernetes.io/safe-to-evict":    "",
		"checksum/config":                                   "",
		"team":                                              "",
	} {
		server := minimal(t)
		server.Spec.Proxy = &v1alpha1.ProxySpec{PodTemplate: raw(t, `{metadata: {annotations: {`+key+`: a}}}`)}
		if want != "" {
			want = fmt.Sprintf("spec.proxy.podTemplate.metadata.annotations[%q]: %s", key, want)
		}
		if diff := cmp.Diff(want, problemsOf(server)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

// A backend has no token but of an account that the user may name; what an injector does to its pod, Pod Security
// admission judges. But host paths are not had by an annotation.
func TestABackendIsInjected(t *testing.T) {
	server := minimal(t)
	server.Spec.PodTemplate = raw(t,
		`{metadata: {annotations: {vault.hashicorp.com/agent-inject: "true", sidecar.istio.io/userVolume: '[{"name": "a", "hostPath": {"path": "/"}}]'}}}`)
	want := `spec.podTemplate.metadata.annotations["sidecar.istio.io/userVolume"]: an injector would mount what this names: remove it, and use volumes`
	if diff := cmp.Diff(want, problemsOf(server)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestABackendWithoutAnAccountHasNoToken(t *testing.T) {
	for source, want := range map[string]string{
		`serviceAccountToken: {path: a}`:                                               `serviceAccountToken: without spec.serviceAccountName a backend has no token: set that, or remove this`,
		`podCertificate: {signerName: a/b, keyType: ED25519, credentialBundlePath: a}`: `podCertificate: without spec.serviceAccountName a backend has no identity: set that, or remove this`,
	} {
		server := minimal(t)
		server.Spec.PodTemplate = raw(t, `{spec: {volumes: [{name: a, projected: {sources: [{configMap: {name: a}}, {`+source+
			`}]}}]}}`)
		if diff := cmp.Diff(`spec.podTemplate.spec.volumes[name=a].projected.sources[1].`+want,
			problemsOf(server)); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		server.Spec.ServiceAccountName = "robot"
		if got := problemsOf(server); got != "" {
			t.Errorf("with an account: %s", got)
		}
	}
}

// The schema refuses such a name first; this is for servers from before it did,
// and for the runner, which builds the backend.
func TestABackendIsNoRunner(t *testing.T) {
	server := minimal(t)
	server.Spec.ServiceAccountName = "other" + RunnerSuffix
	want := "spec.serviceAccountName: accounts that end in -runner are those of Freehold's runners: choose another"
	if diff := cmp.Diff(want, problemsOf(server)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if _, problems := backendOf(server); len(problems) == 0 {
		t.Error("Backend has no problem with it")
	}
	server.Spec.ServiceAccountName = "runner"
	server.Spec.PodTemplate = raw(t,
		`{spec: {automountServiceAccountToken: true, shareProcessNamespace: true, volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: a}}]}}]}}`)
	if got := problemsOf(server); got != "" {
		t.Errorf("an account that is not a runner's: %s", got)
	}
}
