package podtemplate

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A control that a newer library brings needs its words here.
func TestEveryControlOfBaselineHasItsWords(t *testing.T) {
	var ids []policy.CheckID
	for _, check := range policy.DefaultChecks() {
		if check.Level == api.LevelBaseline {
			ids = append(ids, check.ID)
		}
	}
	for id := range instead {
		if !slices.Contains(ids, id) {
			t.Errorf("the library has no control %s", id)
		}
	}
	for _, id := range ids {
		if instead[id].instead == "" {
			t.Errorf("control %s: no words say what to write instead", id)
		}
	}
}

// beyond are what an overlay of either pod may not say of a container, a pod or
// a volume: NAME is that of our container.
var beyond = map[string]struct{ says, at, want string }{
	"a capability": {
		`containers: [{name: NAME, securityContext: {capabilities: {add: [NET_ADMIN]}}}]`,
		`containers[name=NAME].securityContext.capabilities.add`,
		`"non-default capabilities": add only what container runtimes give by default, for example NET_BIND_SERVICE, or remove it`,
	},
	"no seccomp": {
		`containers: [{name: side, image: x, securityContext: {seccompProfile: {type: Unconfined}}}]`,
		`containers[name=side].securityContext.seccompProfile`,
		`"seccompProfile": write the type RuntimeDefault or Localhost, or remove it`,
	},
	"no AppArmor": {
		`containers: [{name: NAME, securityContext: {appArmorProfile: {type: Unconfined}}}]`,
		`containers[name=NAME].securityContext.appArmorProfile`,
		`"forbidden AppArmor profile": write the type RuntimeDefault or Localhost, or remove it`,
	},
	"no AppArmor in the pod": {
		`securityContext: {appArmorProfile: {type: Unconfined}}`,
		`securityContext.appArmorProfile`,
		`"forbidden AppArmor profile": write the type RuntimeDefault or Localhost, or remove it`,
	},
	"an unmasked /proc": {
		`containers: [{name: NAME, securityContext: {procMount: Unmasked}}]`,
		`containers[name=NAME].securityContext.procMount`,
		`"procMount": remove it, or write hostUsers: false beside the containers`,
	},
	"an SELinux user": {
		`containers: [{name: NAME, securityContext: {seLinuxOptions: {user: root}}}]`,
		`containers[name=NAME].securityContext.seLinuxOptions`,
		`"seLinuxOptions": write no user and no role, and of types container_t, container_init_t, container_kvm_t or container_engine_t`,
	},
	"a sysctl": {
		`securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}, {name: kernel.msgmax, value: "1"}]}`,
		`securityContext.sysctls`, `"forbidden sysctls": remove it; only sysctls that Kubernetes calls safe are allowed`,
	},
	"a process of the node": {
		`securityContext: {windowsOptions: {hostProcess: true}}`,
		`securityContext.windowsOptions.hostProcess`, `"hostProcess": remove it`,
	},
	"a probe of the node": {
		`containers: [{name: side, image: x, livenessProbe: {httpGet: {port: 80, host: 127.0.0.1}}}]`,
		`containers[name=side].livenessProbe.httpGet.host`,
		`"probe or lifecycle host": remove it, and kubelet asks the pod itself`,
	},
	"a probe of another host": {
		`initContainers: [{name: side, image: x, startupProbe: {tcpSocket: {port: 80, host: 10.0.0.1}}}]`,
		`initContainers[name=side].startupProbe.tcpSocket.host`,
		`"probe or lifecycle host": remove it, and kubelet asks the pod itself`,
	},
	"a hook of another host": {
		`containers: [{name: NAME, lifecycle: {preStop: {httpGet: {port: 80, host: 10.0.0.1}}}}]`,
		`containers[name=NAME].lifecycle.preStop.httpGet.host`,
		`"probe or lifecycle host": remove it, and kubelet asks the pod itself`,
	},
}

func TestNoOverlayGoesBeyondBaseline(t *testing.T) {
	for name, tc := range beyond {
		for field, container := range map[string]string{
			"spec.podTemplate":       ServerContainer,
			"spec.proxy.podTemplate": ProxyContainer,
		} {
			t.Run(name+" in "+field, func(t *testing.T) {
				server := minimal(t)
				overlay := raw(t, "{spec: {"+strings.ReplaceAll(tc.says, "NAME", container)+"}}")
				if container == ServerContainer {
					server.Spec.PodTemplate = overlay
				} else {
					server.Spec.Proxy = &v1alpha1.ProxySpec{PodTemplate: overlay}
				}
				want := field + ".spec." + strings.ReplaceAll(tc.at, "NAME", container) +
					": breaks the baseline Pod Security Standard, control " + tc.want
				if diff := cmp.Diff(want, problemsOf(server)); diff != "" {
					t.Errorf("problems (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// The schema refuses both first; this is for servers from before it did, and for the runner, which builds the backend.
func TestVolumesOfTheSpecStayWithinBaseline(t *testing.T) {
	for volume, want := range map[string]string{
		`hostPath: {path: /}`: `spec.volumes[name=a].hostPath: breaks the baseline Pod Security Standard, control "hostPath volumes": use a persistentVolumeClaim, emptyDir, configMap or secret`,
		`projected: {sources: [{serviceAccountToken: {path: a}}]}`: `spec.volumes[name=a].projected.sources[0].serviceAccountToken: without spec.serviceAccountName a backend has no token: set that, or remove this`,
	} {
		server := serverWith(t, "{image: i, volumes: [{name: a, "+volume+"}]}")
		if diff := cmp.Diff(want, problemsOf(server)); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		if _, problems := backendOf(server); len(problems) == 0 {
			t.Errorf("Backend has no problem with %s", volume)
		}
	}
}

// What restricted does not allow and baseline does takes the place of our default, and of nothing else.
func TestAnOverlayOfTheBackendMayLoosen(t *testing.T) {
	const pod, own = `securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}`,
		`securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`
	for name, tc := range map[string]struct{ overlay, pod, own string }{
		"nothing": {`{}`, pod, own},
		"root": {
			`{spec: {securityContext: {runAsNonRoot: false, runAsUser: 0}}}`,
			`securityContext: {runAsNonRoot: false, runAsUser: 0, seccompProfile: {type: RuntimeDefault}}`, own,
		},
		"root of one": {
			`{spec: {containers: [{name: server, securityContext: {runAsNonRoot: false, runAsUser: 0}}]}}`,
			pod,
			`securityContext: {runAsNonRoot: false, runAsUser: 0, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`,
		},
		"a capability": {
			`{spec: {containers: [{name: server, securityContext: {capabilities: {add: [CHOWN]}}}]}}`, pod,
			`securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CHOWN], drop: [ALL]}}`,
		},
		"others": {
			`{spec: {containers: [{name: server, securityContext: {allowPrivilegeEscalation: true, capabilities: {drop: [MKNOD]}}}]}}`, pod, `securityContext: {allowPrivilegeEscalation: true, capabilities: {drop: [MKNOD]}}`,
		},
		"another user": {
			`{spec: {securityContext: {runAsUser: 1000, fsGroup: 1000}}}`,
			`securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}`,
			own,
		},
		"a seccomp file": {
			`{spec: {securityContext: {seccompProfile: {type: Localhost, localhostProfile: a}}}}`,
			`securityContext: {runAsNonRoot: true, seccompProfile: {type: Localhost, localhostProfile: a}}`, own,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := minimal(t)
			server.Spec.PodTemplate = raw(t, tc.overlay)
			backend, problems := backendOf(server)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			spec := backend.Spec
			for _, part := range []struct {
				want string
				got  any
			}{{tc.pod, spec.SecurityContext}, {tc.own, spec.Containers[0].SecurityContext}} {
				got, err := yaml.Marshal(map[string]any{"securityContext": part.got})
				if err != nil {
					t.Fatal(err)
				}
				want, err := yaml.JSONToYAML(raw(t, "{"+part.want+"}").Raw)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(got)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

func TestRootIsMeant(t *testing.T) {
	const backend = `runAsUser: 0 is root: write another number, or runAsNonRoot: false beside it if the image must be root`
	for overlay, want := range map[string]string{
		`{spec: {securityContext: {runAsUser: 0}}}`:                                                                       `spec.podTemplate.spec.securityContext.` + backend,
		`{spec: {containers: [{name: server, securityContext: {runAsUser: 0}}]}}`:                                         `spec.podTemplate.spec.containers[name=server].securityContext.` + backend,
		`{spec: {initContainers: [{name: a, image: x, securityContext: {runAsUser: 0}}]}}`:                                `spec.podTemplate.spec.initContainers[name=a].securityContext.` + backend,
		`{spec: {securityContext: {runAsNonRoot: false}, containers: [{name: server, securityContext: {runAsUser: 0}}]}}`: ``,
	} {
		server := minimal(t)
		server.Spec.PodTemplate = raw(t, overlay)
		if diff := cmp.Diff(want, problemsOf(server)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", overlay, diff)
		}
	}
	for overlay, want := range map[string]string{
		`{spec: {securityContext: {runAsUser: 0}}}`:                                                            `spec.securityContext.runAsUser: nothing in a proxy's pod runs as root: write another number, or remove it`,
		`{spec: {containers: [{name: side, image: x, securityContext: {runAsUser: 0, runAsNonRoot: false}}]}}`: `spec.containers[name=side].securityContext.runAsUser: nothing in a proxy's pod runs as root: write another number, or remove it`,
		`{spec: {initContainers: [{name: a, image: x, securityContext: {runAsNonRoot: false}}]}}`:              `spec.initContainers[name=a].securityContext.runAsNonRoot: nothing in a proxy's pod runs as root: remove it`,
	} {
		refusedProxy(t, overlay, "spec.proxy.podTemplate."+want)
	}
}
