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
	"unknown field": {
		`{spec: {contaners: []}}`,
		`spec.podTemplate.spec.contaners: a pod template has no such field: correct or remove it`,
	},
	"wrong type": {
		`{spec: {containers: {}}}`,
		`spec.podTemplate.spec.containers: is a map where a pod template has a list: begin each item with -`,
	},
	"embedded type": {
		`{spec: {volumes: [{name: a, downwardAPI: {items: [{path: 1}]}}]}}`,
		`spec.podTemplate.spec.volumes.downwardAPI.items.path: is a number where a pod template has a text: write it in quotes`,
	},
	"bad quantity": {
		`{spec: {overhead: {cpu: lots}}}`,
		`spec.podTemplate: holds a quantity that is none: write cpu as 500m or 2, memory as 128Mi or 1Gi`,
	},
	"no name": {
		`{spec: {containers: [{image: x}]}}`,
		`spec.podTemplate.spec.containers[0].name: missing: write it, every item of this list has one`,
	},
	"no port": {
		`{spec: {containers: [{name: a, image: x, ports: [{name: b}]}]}}`,
		`spec.podTemplate.spec.containers[name=a].ports[0].containerPort: missing: write it, every item of this list has one`,
	},
	"no mount path": {
		`{spec: {initContainers: [{name: a, image: x, volumeMounts: [{name: b}]}]}}`,
		`spec.podTemplate.spec.initContainers[name=a].volumeMounts[0].mountPath: missing: write it, every item of this list has one`,
	},
	"an empty item": {
		`{spec: {tolerations: [{}]}}`,
		`spec.podTemplate.spec.tolerations[0]: an empty item cannot be applied: remove it`,
	},
	"a number": {
		`{spec: {hostname: 1}}`,
		`spec.podTemplate.spec.hostname: is a number where a pod template has a text: write it in quotes`,
	},
	"a text": {
		`{spec: {priority: high}}`,
		`spec.podTemplate.spec.priority: is a text where a pod template has a number: write it without quotes`,
	},
	"a switch in text": {
		`{spec: {hostPID: "no"}}`,
		`spec.podTemplate.spec.hostPID: is a text where a pod template has true or false: write it without quotes`,
	},
	"a list": {
		`{spec: {affinity: []}}`,
		`spec.podTemplate.spec.affinity: is a list where a pod template has a map: write its fields below it`,
	},
	"no image": {
		`{spec: {initContainers: [{name: a}]}}`,
		`spec.podTemplate.spec.initContainers[name=a].image: missing: write the image of this container, or give it the name of Freehold's to add to that`,
	},
	"no volume": {
		`{spec: {containers: [{name: a, image: x, volumeMounts: [{name: b, mountPath: /b}]}]}}`,
		`spec.podTemplate.spec.containers[name=a].volumeMounts[mountPath=/b].name: there is no volume of this name: add it to the volumes, or correct the name`,
	},
	"a label's value": {
		`{metadata: {labels: {a: "b c"}}}`,
		`spec.podTemplate.metadata.labels["a"]: no label has such a value: write at most 63 letters, digits, - _ and ., or use an annotation`,
	},
	"a key": {
		`{metadata: {annotations: {"a b": c}}}`,
		`spec.podTemplate.metadata.annotations["a b"]: no label or annotation has such a key: write letters, digits, - _ and . with a domain before it if you like, for example example.com/team`,
	},
	"a line break": {
		`{spec: {volumes: [{name: "a\n"}]}}`,
		`spec.podTemplate.spec.volumes[name="a\n"].name: no container or volume has such a name: write at most 63 lower-case letters, digits and -, for example cache`,
	},
	"above a limit": {
		`{spec: {containers: [{name: a, image: x, resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]}}`,
		`spec.podTemplate.spec.containers[name=a].resources.requests.cpu: above its limit: lower the request or raise the limit`,
	},
	"one name twice": {
		`{spec: {volumes: [{name: a}, {name: a}]}}`,
		`spec.podTemplate: spec.volumes: duplicate entries for key [name="a"]: keep one of them`,
	},
	"pod's name": {
		`{metadata: {name: a, namespace: b}}`,
		"spec.podTemplate.metadata.name: a pod template of a server has only labels and annotations: remove it\n" +
			"spec.podTemplate.metadata.namespace: a pod template of a server has only labels and annotations: remove it",
	},
	"a label of ours": {
		`{metadata: {labels: {app.kubernetes.io/version: "1"}}}`,
		`spec.podTemplate.metadata.labels["app.kubernetes.io/version"]: only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix`,
	},
	"the revision": {
		`{metadata: {annotations: {freehold.dev/workload-hash: x}}}`,
		`spec.podTemplate.metadata.annotations["freehold.dev/workload-hash"]: only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix`,
	},
	"hostNetwork": {
		`{spec: {hostNetwork: true}}`,
		`spec.podTemplate.spec.hostNetwork: breaks the baseline Pod Security Standard, control "host namespaces": remove it`,
	},
	"hostPID": {
		`{spec: {hostPID: true}}`,
		`spec.podTemplate.spec.hostPID: breaks the baseline Pod Security Standard, control "host namespaces": remove it`,
	},
	"hostIPC": {
		`{spec: {hostIPC: true}}`,
		`spec.podTemplate.spec.hostIPC: breaks the baseline Pod Security Standard, control "host namespaces": remove it`,
	},
	"hostPort": {
		`{spec: {initContainers: [{name: a, image: x, ports: [{containerPort: 1, hostPort: 1}]}]}}`,
		`spec.podTemplate.spec.initContainers[name=a].ports[containerPort=1,protocol=TCP].hostPort: breaks the baseline Pod Security Standard, control "hostPort": remove it and call the Service`,
	},
	"hostPath": {
		`{spec: {volumes: [{name: a, hostPath: {path: /}}]}}`,
		`spec.podTemplate.spec.volumes[name=a].hostPath: breaks the baseline Pod Security Standard, control "hostPath volumes": use a persistentVolumeClaim, emptyDir, configMap or secret`,
	},
	"privileged": {
		`{spec: {containers: [{name: server, securityContext: {privileged: true}}]}}`,
		`spec.podTemplate.spec.containers[name=server].securityContext.privileged: breaks the baseline Pod Security Standard, control "privileged": remove it`,
	},
	"privileged init": {
		`{spec: {initContainers: [{name: a, image: x, securityContext: {privileged: true}}]}}`,
		`spec.podTemplate.spec.initContainers[name=a].securityContext.privileged: breaks the baseline Pod Security Standard, control "privileged": remove it`,
	},
	"ephemeral": {
		`{spec: {ephemeralContainers: [{name: a, image: x}]}}`,
		`spec.podTemplate.spec.ephemeralContainers: a template has none: use kubectl debug on a pod`,
	},
	"restartPolicy": {
		`{spec: {restartPolicy: Never}}`,
		`spec.podTemplate.spec.restartPolicy: these pods are always restarted: remove it`,
	},
	"service account": {
		`{spec: {serviceAccountName: a}}`,
		`spec.podTemplate.spec.serviceAccountName: remove it here and set spec.serviceAccountName`,
	},
	"old alias": {
		`{spec: {serviceAccount: a}}`,
		`spec.podTemplate.spec.serviceAccount: is an old name of serviceAccountName: remove it`,
	},
	"token": {
		`{spec: {automountServiceAccountToken: true}}`,
		`spec.podTemplate.spec.automountServiceAccountToken: comes from spec.serviceAccountName: set that instead`,
	},
	"image": {
		`{spec: {containers: [{name: server, image: x}]}}`,
		`spec.podTemplate.spec.containers[name=server].image: comes from spec.image: set that instead`,
	},
	"an atomic list": {
		`{spec: {containers: [{name: server, args: [x]}]}}`,
		`spec.podTemplate.spec.containers[name=server].args: comes from spec.args: set that instead`,
	},
	"value, valueFrom": {
		`{spec: {containers: [{name: server, env: [{name: LEVEL, valueFrom: {secretKeyRef: {name: a, key: b}}}]}]}}`,
		`spec.podTemplate.spec.containers[name=server].env[name=LEVEL]: comes from spec.env: set that instead`,
	},
	"volume source": {
		`{spec: {volumes: [{name: cache, secret: {secretName: a}}]}}`,
		`spec.podTemplate.spec.volumes[name=cache]: comes from spec.volumes: set that instead`,
	},
	"empty source": {
		`{spec: {volumes: [{name: cache, emptyDir: {}}]}}`,
		`spec.podTemplate.spec.volumes[name=cache]: comes from spec.volumes: set that instead`,
	},
	"our mount": {
		`{spec: {containers: [{name: server, volumeMounts: [{name: x, mountPath: /cache}]}]}}`,
		`spec.podTemplate.spec.containers[name=server].volumeMounts[mountPath=/cache]: comes from spec.volumeMounts: set that instead`,
	},
	"our port": {
		`{spec: {containers: [{name: server, ports: [{containerPort: 8080}]}]}}`,
		`spec.podTemplate.spec.containers[name=server].ports[containerPort=8080,protocol=TCP]: comes from spec.port: set that instead`,
	},
	"our port's name": {
		`{spec: {containers: [{name: side, image: x, ports: [{containerPort: 1, name: mcp}]}]}}`,
		`spec.podTemplate.spec.containers[name=side].ports[containerPort=1,protocol=TCP].name: Freehold names a port mcp: choose another name`,
	},
	"limit": {
		`{spec: {containers: [{name: server, resources: {limits: {memory: 1Gi}}}]}}`,
		`spec.podTemplate.spec.containers[name=server].resources.limits.memory: comes from spec.resources: set that instead`,
	},
	"probe handler": {
		`{spec: {containers: [{name: server, readinessProbe: {exec: {command: [x]}}}]}}`,
		`spec.podTemplate.spec.containers[name=server].readinessProbe.exec: Freehold states another handler of this probe: remove it`,
	},
	"probe port": {
		`{spec: {containers: [{name: server, readinessProbe: {tcpSocket: {port: 1}}}]}}`,
		`spec.podTemplate.spec.containers[name=server].readinessProbe.tcpSocket.port: Freehold states this: remove it`,
	},
	"service links": {
		`{spec: {enableServiceLinks: true}}`,
		`spec.podTemplate.spec.enableServiceLinks: Freehold states this: remove it`,
	},
	"empty selector": {
		`{spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: b, labelSelector: {}}]}}`,
		`spec.podTemplate.spec.topologySpreadConstraints[topologyKey=a,whenUnsatisfiable=b].labelSelector: an empty selector cannot be applied: write a label that everything it should match has`,
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
		"image": {
			`{spec: {containers: [{name: proxy, image: x}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=proxy].image: Freehold states this: remove it`,
		},
		"env": {
			`{spec: {containers: [{name: proxy, env: [{name: FREEHOLD_WORKLOAD_HASH, value: x}]}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=proxy].env[name=FREEHOLD_WORKLOAD_HASH]: Freehold has this item: choose another`,
		},
		"volume": {
			`{spec: {volumes: [{name: run-config, secret: {secretName: a}}]}}`,
			`spec.proxy.podTemplate.spec.volumes[name=run-config]: Freehold has this item: choose another`,
		},
		"resources": {
			`{spec: {containers: [{name: proxy, resources: {requests: {cpu: 1}}}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=proxy].resources.requests.cpu: comes from spec.proxy.resources: set that instead`,
		},
		"account": {
			`{spec: {serviceAccountName: admin}}`,
			`spec.proxy.podTemplate.spec.serviceAccountName: Freehold states this: remove it`,
		},
		"grace": {
			`{spec: {terminationGracePeriodSeconds: 1}}`,
			`spec.proxy.podTemplate.spec.terminationGracePeriodSeconds: Freehold states this: remove it`,
		},
		"user": {
			`{spec: {containers: [{name: proxy, securityContext: {runAsUser: 1}}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=proxy].securityContext.runAsUser: Freehold states this: remove it`,
		},
		"over a run": {
			`{spec: {containers: [{name: proxy, volumeMounts: [{name: a, mountPath: /etc/freehold}]}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=proxy].volumeMounts[mountPath=/etc/freehold]: nothing is mounted in the runner: remove it, or use a container of your own`,
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

// What an overlay says of a pod's end stands, and the API server takes no sleep
// longer than the grace period.
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
