package podtemplate

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// spec has an item in every list that an overlay may want to add to.
const spec = `
image: registry.example.com/echo:1
args: [serve]
env: [{name: LEVEL, value: debug}]
envFrom: [{configMapRef: {name: echo}}]
volumes: [{name: cache}]
volumeMounts: [{name: cache, mountPath: /cache}]
imagePullSecrets: [{name: registry}]
resources: {limits: {memory: 64Mi}}
`

func raw(t *testing.T, text string) *runtime.RawExtension {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: data}
}

var refusals = map[string]struct{ overlay, want string }{
	"not an object": {
		`[]`,
		`spec.podTemplate: cannot be read as a PodTemplateSpec: json: cannot unmarshal array into Go value of type v1.PodTemplateSpec`,
	},
	"embedded type": {
		`{spec: {volumes: [{name: a, downwardAPI: {items: [{path: 1}]}}]}}`,
		`spec.podTemplate.spec.volumes.downwardAPI.items.path: is a number where a pod template has a text: write it in quotes`,
	},
	"no port": {
		`{spec: {containers: [{name: a, image: x, ports: [{name: b}]}]}}`,
		`spec.podTemplate.spec.containers[name=a].ports[0].containerPort: missing: write it, every item of this list has one`,
	},
	"no mount path": {
		`{spec: {initContainers: [{name: a, image: x, volumeMounts: [{name: b}]}]}}`,
		`spec.podTemplate.spec.initContainers[name=a].volumeMounts[0].mountPath: missing: write it, every item of this list has one`,
	},
	"a switch in text": {
		`{spec: {hostPID: "no"}}`,
		`spec.podTemplate.spec.hostPID: is a text where a pod template has true or false: write it without quotes`,
	},
	"a list": {
		`{spec: {affinity: []}}`,
		`spec.podTemplate.spec.affinity: is a list where a pod template has a map: write its fields below it`,
	},
	"a line break": {
		`{spec: {volumes: [{name: "a\n"}]}}`,
		`spec.podTemplate.spec.volumes[name="a\n"].name: no container or volume has such a name: write at most 63 lower-case letters, digits and -, for example cache`,
	},
	"above a limit": {
		`{spec: {containers: [{name: a, image: x, resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]}}`,
		`spec.podTemplate.spec.containers[name=a].resources.requests.cpu: above its limit: lower the request or raise the limit`,
	},
	"pod's name": {
		`{metadata: {name: a, namespace: b}}`,
		"spec.podTemplate.metadata.name: a pod template of a server has only labels and annotations: remove it\n" +
			"spec.podTemplate.metadata.namespace: a pod template of a server has only labels and annotations: remove it",
	},
	"the revision": {
		`{metadata: {annotations: {freehold.dev/workload-hash: x}}}`,
		`spec.podTemplate.metadata.annotations["freehold.dev/workload-hash"]: only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix`,
	},
	"token": {
		`{spec: {automountServiceAccountToken: true}}`,
		`spec.podTemplate.spec.automountServiceAccountToken: comes from spec.serviceAccountName: set that instead`,
	},
	"empty source": {
		`{spec: {volumes: [{name: cache, emptyDir: {}}]}}`,
		`spec.podTemplate.spec.volumes[name=cache]: comes from spec.volumes: set that instead`,
	},
	"our mount": {
		`{spec: {containers: [{name: server, volumeMounts: [{name: x, mountPath: /cache}]}]}}`,
		`spec.podTemplate.spec.containers[name=server].volumeMounts[mountPath=/cache]: comes from spec.volumeMounts: set that instead`,
	},
	"limit": {
		`{spec: {containers: [{name: server, resources: {limits: {memory: 1Gi}}}]}}`,
		`spec.podTemplate.spec.containers[name=server].resources.limits.memory: comes from spec.resources: set that instead`,
	},
	"probe port": {
		`{spec: {containers: [{name: server, readinessProbe: {tcpSocket: {port: 1}}}]}}`,
		`spec.podTemplate.spec.containers[name=server].readinessProbe.tcpSocket.port: Freehold states this: remove it`,
	},
	"service links": {
		`{spec: {enableServiceLinks: true}}`,
		`spec.podTemplate.spec.enableServiceLinks: Freehold states this: remove it`,
	},
	"empty namespaces": {
		`{spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, namespaceSelector: {}}]}}}}`, `spec.podTemplate.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector: an empty selector cannot be applied: write a label that everything it should match has`,
	},
	"empty projection": {
		`{spec: {volumes: [{name: a, projected: {sources: []}}]}}`,
		`spec.podTemplate.spec.volumes[name=a].projected: an empty volume source cannot be applied: write what it holds`,
	},
	"empty valueFrom": {
		`{spec: {containers: [{name: server, env: [{name: A, valueFrom: {}}]}]}}`,
		`spec.podTemplate.spec.containers[name=server].env[name=A].valueFrom: names no source: write one, or value`,
	},
	"several": {
		`{spec: {hostPID: true, containers: [{name: server, image: x}, {image: z}]}}`,
		`spec.podTemplate.spec.containers[1].name: missing: write it, every item of this list has one
spec.podTemplate.spec.containers[name=server].image: comes from spec.image: set that instead
spec.podTemplate.spec.hostPID: breaks the baseline Pod Security Standard, control "host namespaces": remove it`,
	},
}

func TestBackendOverlayRefusesByName(t *testing.T) {
	for name, tc := range refusals {
		t.Run(name, func(t *testing.T) {
			server := serverWith(t, spec)
			server.Spec.PodTemplate = raw(t, tc.overlay)
			if diff := cmp.Diff(tc.want, problemsOf(server)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			// The runner builds it, too, and without a Check of the spec.
			if _, problems := backendOf(server); len(problems) == 0 {
				t.Error("Backend has no problem with it")
			}
		})
	}
}

func TestProxyOverlayRefusesByName(t *testing.T) {
	for name, tc := range map[string]struct{ overlay, want string }{
		"resources": {
			`{spec: {containers: [{name: proxy, resources: {requests: {cpu: 1}}}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=proxy].resources.requests.cpu: comes from spec.proxy.resources: set that instead`,
		},
		"account": {
			`{spec: {serviceAccountName: admin}}`,
			`spec.proxy.podTemplate.spec.serviceAccountName: Freehold states this: remove it`,
		},
		"user": {
			`{spec: {containers: [{name: proxy, securityContext: {runAsUser: 1}}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=proxy].securityContext.runAsUser: Freehold states this: remove it`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := minimal(t)
			server.Spec.Proxy = &v1alpha1.ProxySpec{PodTemplate: raw(t, tc.overlay)}
			if diff := cmp.Diff(tc.want, problemsOf(server)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// What says nothing is dropped, whatever wrote it.
func TestOverlayThatSaysNothingChangesNothing(t *testing.T) {
	plain, _ := backendOf(serverWith(t, spec))
	for name, overlay := range map[string]string{
		"nothing":     `{}`,
		"empties":     `{metadata: {creationTimestamp: null, labels: {}}, spec: {containers: [], affinity: {}, securityContext: {}, nodeSelector: {}}}`,
		"our names":   `{spec: {containers: [{name: server, resources: {}, env: []}]}}`,
		"false":       `{spec: {hostNetwork: false, hostPID: false}}`,
		"white space": ` { } `,
	} {
		t.Run(name, func(t *testing.T) {
			server := serverWith(t, spec)
			server.Spec.PodTemplate = raw(t, overlay)
			if got := problemsOf(server); got != "" {
				t.Fatal(got)
			}
			got, _ := backendOf(server)
			if diff := cmp.Diff(plain, got); diff != "" {
				t.Errorf("pod template (-without +with):\n%s", diff)
			}
		})
	}
}

// What an overlay says of a pod's end stands, and the API server takes no sleep longer than the grace period.
func TestABackendSleepsBeforeItsEnd(t *testing.T) {
	for name, tc := range map[string]struct{ overlay, want string }{
		"with no overlay":          {``, `{"preStop":{"sleep":{"seconds":7}}}`},
		"in half of a short grace": {`{spec: {terminationGracePeriodSeconds: 9}}`, `{"preStop":{"sleep":{"seconds":4}}}`},
		"in none of no grace":      {`{spec: {terminationGracePeriodSeconds: 1}}`, `null`},
		"beside a user's start": {
			`{spec: {containers: [{name: server, lifecycle: {postStart: {exec: {command: [a]}}}}]}}`,
			`{"postStart":{"exec":{"command":["a"]}},"preStop":{"sleep":{"seconds":7}}}`,
		},
		"but not with a user's end": {
			`{spec: {containers: [{name: server, lifecycle: {preStop: {exec: {command: [a]}}}}]}}`,
			`{"preStop":{"exec":{"command":["a"]}}}`,
		},
	} {
		server := serverWith(t, spec)
		if tc.overlay != "" {
			server.Spec.PodTemplate = raw(t, tc.overlay)
		}
		backend, problems := backendOf(server)
		if len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems)
		}
		got, err := json.Marshal(backend.Spec.Containers[0].Lifecycle)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}
