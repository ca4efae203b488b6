package podtemplate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// A proxy with the overlays of a release and of a spec is as with one overlay that says all of it.
func TestASpecsOverlayIsLaidOverThatOfTheRelease(t *testing.T) {
	const side = `{name: side, image: s:1`
	for name, tc := range map[string]struct{ release, spec, want string }{
		"the release's alone": {`{spec: {priorityClassName: mcp}}`, ``, `{spec: {priorityClassName: mcp}}`},
		"the spec's alone":    {``, `{spec: {priorityClassName: mcp}}`, `{spec: {priorityClassName: mcp}}`},
		"an empty one":        {`{spec: {priorityClassName: mcp}}`, `{}`, `{spec: {priorityClassName: mcp}}`},
		"a field": {
			`{spec: {priorityClassName: mcp, schedulerName: s}}`, `{spec: {priorityClassName: high}}`,
			`{spec: {priorityClassName: high, schedulerName: s}}`,
		},
		"labels": {
			`{metadata: {labels: {a: r, b: r}}}`, `{metadata: {labels: {b: s, c: s}}}`,
			`{metadata: {labels: {a: r, b: s, c: s}}}`,
		},
		"a list that is a value": {
			`{spec: {tolerations: [{key: a, operator: Exists}]}}`,
			`{spec: {tolerations: [{key: b, operator: Exists}]}}`, `{spec: {tolerations: [{key: b, operator: Exists}]}}`,
		},
		"a map that is a value": {
			`{spec: {nodeSelector: {a: r, b: r}}}`, `{spec: {nodeSelector: {b: s}}}`,
			`{spec: {nodeSelector: {b: s}}}`,
		},
		"a list by its key": {
			`{spec: {hostAliases: [{ip: 10.0.0.1, hostnames: [a]}, {ip: 10.0.0.2, hostnames: [a]}]}}`,
			`{spec: {hostAliases: [{ip: 10.0.0.2, hostnames: [b]}]}}`,
			`{spec: {hostAliases: [{ip: 10.0.0.1, hostnames: [a]}, {ip: 10.0.0.2, hostnames: [b]}]}}`,
		},
		"the runner's variables": {
			`{spec: {containers: [{name: proxy, env: [{name: GOGC, value: "50"}]}]}}`,
			`{spec: {containers: [{name: proxy, env: [{name: GOGC, value: "200"}]}]}}`,
			`{spec: {containers: [{name: proxy, env: [{name: GOGC, value: "200"}]}]}}`,
		},
		"a variable's value and source": {
			`{spec: {containers: [` + side + `, env: [{name: A, value: a}]}]}}`,
			`{spec: {containers: [{name: side, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}`,
			`{spec: {containers: [` + side + `, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}`,
		},
		"the source of a volume": {
			`{spec: {volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]}}`, `{spec: {volumes: [{name: v, configMap: {name: c}}]}}`,
			`{spec: {volumes: [{name: v, configMap: {name: c}}]}}`,
		},
		"the handler of a probe": {
			`{spec: {containers: [` + side + `, livenessProbe: {periodSeconds: 3, tcpSocket: {port: 1}}}]}}`,
			`{spec: {containers: [{name: side, livenessProbe: {exec: {command: [a]}}}]}}`,
			`{spec: {containers: [` + side + `, livenessProbe: {exec: {command: [a]}}}]}}`,
		},
		"the handler before the end": {
			`{spec: {containers: [` + side + `, lifecycle: {preStop: {exec: {command: [a]}}}}]}}`,
			`{spec: {containers: [{name: side, lifecycle: {preStop: {sleep: {seconds: 1}}}}]}}`,
			`{spec: {containers: [` + side + `, lifecycle: {preStop: {sleep: {seconds: 1}}}}]}}`,
		},
		"a profile": {
			`{spec: {containers: [` + side + `, securityContext: {seccompProfile: {type: Localhost, localhostProfile: p}}}]}}`,
			`{spec: {containers: [{name: side, securityContext: {seccompProfile: {type: RuntimeDefault}}}]}}`,
			`{spec: {containers: [` + side + `, securityContext: {seccompProfile: {type: RuntimeDefault}}}]}}`,
		},
		"variables in their order": {
			`{spec: {containers: [` + side + `, env: [{name: A, value: a}, {name: B, value: $(A)}]}]}}`,
			`{spec: {containers: [{name: side, env: [{name: C, value: c}, {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}`,
			`{spec: {containers: [` + side +
				`, env: [{name: C, value: c}, {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: B, value: $(A)}]}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := withOverlays(t, tc.release, tc.spec)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			want, problems := withOverlays(t, "", tc.want)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pod template (-want +got):\n%s", diff)
			}
		})
	}
}

// A problem is told to who can correct it, and neither overlay is in the template then.
func TestWhoseOverlayIsWrong(t *testing.T) {
	const good, runsRoot = `{spec: {priorityClassName: mcp}}`, `{spec: {securityContext: {runAsUser: 0}}}`
	plain, _ := withOverlays(t, "", "")
	for name, tc := range map[string]struct{ release, spec, want string }{
		"the release's": {
			runsRoot, ``,
			`proxyDefaults.podTemplate.spec.securityContext.runAsUser: nothing in a proxy's pod runs as root: write another number, or remove it`,
		},
		"the release's, of both": {
			runsRoot, good,
			`proxyDefaults.podTemplate.spec.securityContext.runAsUser: nothing in a proxy's pod runs as root: write another number, or remove it`,
		},
		"the release's, unreadable": {
			`{spec: {containers: 1}}`, good,
			`proxyDefaults.podTemplate.spec.containers: is a number where a pod template has a list: begin each item with -`,
		},
		"the spec's": {
			good, runsRoot,
			`spec.proxy.podTemplate.spec.securityContext.runAsUser: nothing in a proxy's pod runs as root: write another number, or remove it`,
		},
		"the spec's, unreadable": {
			good, `{spec: {unknown: 1}}`,
			`spec.proxy.podTemplate.spec.unknown: a pod template has no such field: correct or remove it`,
		},
		"the spec's, one name twice": {
			good, `{spec: {volumes: [{name: a}, {name: a}]}}`,
			`spec.proxy.podTemplate: spec.volumes: duplicate entries for key [name="a"]: keep one of them`,
		},
		"the spec's selector, empty": {
			good,
			`{spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: b, labelSelector: {}}]}}`,
			`spec.proxy.podTemplate.spec.topologySpreadConstraints[topologyKey=a,whenUnsatisfiable=b].labelSelector: an empty selector cannot be applied: write a label that everything it should match has`,
		},
		"the spec's namespaces, empty": {
			good,
			`{spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, namespaceSelector: {}}]}}}}`, `spec.proxy.podTemplate.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector: an empty selector cannot be applied: write a label that everything it should match has`,
		},
		"the spec's projection, empty": {
			good, `{spec: {volumes: [{name: a, projected: {sources: []}}]}}`,
			`spec.proxy.podTemplate.spec.volumes[name=a].projected: an empty volume source cannot be applied: write what it holds`,
		},
		"the spec's valueFrom, empty": {
			good, `{spec: {containers: [{name: proxy, env: [{name: A, valueFrom: {}}]}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=proxy].env[name=A].valueFrom: names no source: write one, or value`,
		},
		"the release's selector, of both": {
			`{spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: b, labelSelector: {}}]}}`, good,
			`proxyDefaults.podTemplate.spec.topologySpreadConstraints[topologyKey=a,whenUnsatisfiable=b].labelSelector: an empty selector cannot be applied: write a label that everything it should match has`,
		},
		"the release's resources": {
			`{spec: {containers: [{name: proxy, resources: {requests: {cpu: 1}}}]}}`, ``,
			`proxyDefaults.podTemplate.spec.containers[name=proxy].resources.requests.cpu: comes from proxyDefaults.resources: set that instead`,
		},
		"the spec's, for a lack": {
			good, `{spec: {containers: [{name: side}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=side].image: missing: write the image of this container, or give it the name of Freehold's to add to that`,
		},
		"the release's port, of the spec": {
			`{spec: {containers: [{name: proxy, ports: [{containerPort: 8000, name: more}]}]}}`, ``,
			`proxyDefaults.podTemplate.spec.containers[name=proxy].ports[containerPort=8000,protocol=TCP]: Freehold has this item: choose another`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			template, problems := withOverlays(t, tc.release, tc.spec)
			if got := Problems(Sorted(problems)).Error(); got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
			if diff := cmp.Diff(plain, template); diff != "" {
				t.Errorf("half applied (-without +with):\n%s", diff)
			}
		})
	}
}

// What no overlay of a spec may say, none of a release may; and it is found before any
// proxy, also where only some of them have what it meets.
func TestTheOverlayOfAReleaseIsHeldToThatOfASpec(t *testing.T) {
	release := func(overlay string) Release {
		return Release{
			ProxyTemplate: raw(t, overlay).Raw, RunnerPullPolicy: corev1.PullIfNotPresent,
			RunnerPullSecrets: []string{"ours"},
		}
	}
	for name, overlay := range map[string]string{
		"the node's network":        `{spec: {hostNetwork: true}}`,
		"a path of the node":        `{spec: {volumes: [{name: a, hostPath: {path: /}}]}}`,
		"root":                      `{spec: {containers: [{name: proxy, securityContext: {runAsUser: 0}}]}}`,
		"the runner's token":        `{spec: {containers: [{name: side, image: s, volumeMounts: [{name: runner-token, mountPath: /t}]}]}}`,
		"a program in the runner":   `{spec: {containers: [{name: proxy, livenessProbe: {exec: {command: [a]}}}]}}`,
		"an injector":               `{metadata: {annotations: {example.com/inject: "true"}}}`,
		"the image":                 `{spec: {containers: [{name: proxy, image: x}]}}`,
		"the account":               `{spec: {serviceAccountName: admin}}`,
		"the login's files":         `{spec: {volumes: [{name: ` + "login" + `, emptyDir: {}}]}}`,
		"the keys of sessions":      `{spec: {volumes: [{name: session-keys, emptyDir: {}}]}}`,
		"the port of a remote's":    `{spec: {containers: [{name: side, image: s, ports: [{containerPort: 1, name: peers}]}]}}`,
		"a container without image": `{spec: {containers: [{name: side}]}}`,
		"the release's policy":      `{spec: {containers: [{name: proxy, imagePullPolicy: Always}]}}`,
		"the release's pull secret": `{spec: {imagePullSecrets: [{name: ours}]}}`,
		"the port of calls":         `{spec: {containers: [{name: proxy, ports: [{containerPort: 8000, name: more}]}]}}`,
		"a label of ours":           `{metadata: {labels: {app.kubernetes.io/name: x}}}`,
		"more than fits":            `{metadata: {annotations: {a: ` + strings.Repeat("x", releaseLimit) + `}}}`,
	} {
		if problems := CheckRelease(release(overlay)); len(problems) == 0 ||
			!strings.HasPrefix(problems[0].String(), "proxyDefaults.podTemplate") {
			t.Errorf("%s: got %v", name, problems)
		}
	}
	for name, overlay := range map[string]string{
		"nothing":        `{}`,
		"a sidecar":      `{spec: {containers: [{name: side, image: s, ports: [{containerPort: 9000, name: side}]}]}}`,
		"where it runs":  `{metadata: {labels: {team: a}}, spec: {nodeSelector: {pool: mcp}, tolerations: [{key: a, operator: Exists}], runtimeClassName: gvisor, priorityClassName: mcp}}`,
		"its registries": `{spec: {imagePullSecrets: [{name: regcred}]}}`,
	} {
		if problems := CheckRelease(release(overlay)); len(problems) > 0 {
			t.Errorf("%s: got %v", name, problems)
		}
	}
}

// withOverlays is a proxy's template with these two overlays, where they are not empty.
func withOverlays(t *testing.T, release, own string) (any, []Problem) {
	t.Helper()
	server, opts := minimal(t), options
	server.Spec.Proxy = &v1alpha1.ProxySpec{}
	if own != "" {
		server.Spec.Proxy.PodTemplate = raw(t, own)
	}
	if release != "" {
		opts.ProxyTemplate = raw(t, release).Raw
	}
	run := runspec.For(server)
	run.Proxy.Port = 8000
	return Proxy(Names{ServiceAccount: "echo-runner", RunConfig: "echo-run-0-"}, server.GetProxySpec(), run, opts)
}
