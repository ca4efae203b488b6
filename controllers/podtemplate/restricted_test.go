package podtemplate

import (
	"strings"
	"testing"

	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Containers beside the runner are restricted, whether an overlay says so or not.
func TestAllOfAProxysPodIsRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, overlay := range map[string]string{
		"the runner alone":         `{}`,
		"containers that say none": others,
		"what restricted leaves":   `{spec: {containers: [{name: side, image: x, securityContext: {capabilities: {add: [NET_BIND_SERVICE]}, runAsUser: 7}}]}}`,
		"what it asks for": `{spec: {securityContext: {fsGroup: 7}, containers: [{name: side, image: x, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]},
			runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			template := proxyTemplate(t, overlay)
			for _, result := range evaluator.EvaluatePod(
				api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec) {
				if !result.Allowed {
					t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
				}
			}
		})
	}
}

func TestWhatIsNotRestrictedIsRefusedToAProxysPod(t *testing.T) {
	side := func(security string) string {
		return `{spec: {initContainers: [{name: side, image: x, securityContext: ` + security + `}]}}`
	}
	const at = "spec.proxy.podTemplate.spec.initContainers[name=side].securityContext."
	for name, tc := range map[string]struct{ overlay, want string }{
		"more rights later": {
			side("{allowPrivilegeEscalation: true}"),
			at +
				`allowPrivilegeEscalation: breaks the restricted Pod Security Standard, control "allowPrivilegeEscalation != false": remove it, and Freehold states false`,
		},
		"a capability": {
			side("{capabilities: {add: [CHOWN]}}"),
			at +
				`capabilities: breaks the restricted Pod Security Standard, control "unrestricted capabilities": drop ALL or nothing, which Freehold makes ALL, and add NET_BIND_SERVICE alone`,
		},
		"few are dropped": {
			side("{capabilities: {drop: [CHOWN]}}"),
			at +
				`capabilities: breaks the restricted Pod Security Standard, control "unrestricted capabilities": drop ALL or nothing, which Freehold makes ALL, and add NET_BIND_SERVICE alone`,
		},
		"the runner's": {
			`{spec: {containers: [{name: proxy, securityContext: {capabilities: {add: [CHOWN]}}}]}}`,
			`spec.proxy.podTemplate.spec.containers[name=proxy].securityContext.capabilities: breaks the restricted Pod Security Standard, control "unrestricted capabilities": drop ALL or nothing, which Freehold makes ALL, and add NET_BIND_SERVICE alone`,
		},
		"root": {
			side("{runAsUser: 0}"),
			at + "runAsUser: nothing in a proxy's pod runs as root: write another number, or remove it",
		},
		"an unmasked /proc": {
			`{spec: {hostUsers: false, initContainers: [{name: side, image: x, securityContext: {procMount: Unmasked}}]}}`,
			at + `procMount: breaks the restricted Pod Security Standard, control "procMount": remove it`,
		},
		"a driver of the node": {
			`{spec: {volumes: [{name: a, csi: {driver: secrets-store.csi.k8s.io}}]}}`,
			"spec.proxy.podTemplate.spec.volumes[name=a].csi: its driver could give away what is for the runner alone: in a " +
				"proxy's pod use " + strings.Join(keptVolumes, ", "),
		},
		"the runner's name": {
			`{spec: {initContainers: [{name: proxy, image: x}]}}`,
			"spec.proxy.podTemplate.spec.initContainers[name=proxy].name: another container of this pod has this name: choose " +
				"another",
		},
		"a share": {
			`{spec: {volumes: [{name: a, nfs: {server: a, path: /}}]}}`,
			"spec.proxy.podTemplate.spec.volumes[name=a].nfs: its driver could give away what is for the runner alone: in a " +
				"proxy's pod use " + strings.Join(keptVolumes, ", "),
		},
	} {
		t.Run(name, func(t *testing.T) { refusedProxy(t, tc.overlay, tc.want) })
	}
}

func TestArgumentsOfTheRunner(t *testing.T) {
	for args, refused := range map[string]string{
		"--log-level=debug --log-format=text": "",
		"-log-level debug --log-format json":  "",
		"--log-level=INFO+2":                  "",
		"--log-level=info --config=/a/token":  "--config=/a/token",
		"-config /a/token":                    "-config",
		"--log-level --config=/a/token":       "--config=/a/token",
		"--log-level=$(TOKEN)":                "--log-level=$(TOKEN)",
		"--log-format text serve":             "serve",
		"bridge":                              "bridge",
		"--":                                  "--",
		"---log-level=debug":                  "---log-level=debug",
		"--log-level":                         "--log-level",
	} {
		if got, is := refusedArgs(strings.Fields(args)); got != refused || is != (refused != "") {
			t.Errorf("%s: %q is refused, want %q", args, got, refused)
		}
	}
	refusedProxy(t, `{spec: {containers: [{name: proxy, args: ["--config=/a"]}]}}`,
		"spec.proxy.podTemplate.spec.containers[name=proxy].args: "+
			`the runner takes "--config=/a" from nobody: write --log-level or --log-format, each with one of its words, or nothing`)
}

// Who may write MCPRemoteProxies and nothing else runs no image by them, unless the platform lets them.
func TestARemoteProxyAddsNoContainers(t *testing.T) {
	const says = "the pods of an MCPRemoteProxy run no image of its spec: remove it, or have an administrator set " +
		"remoteProxies.allowContainers of the chart to true, " +
		"or write it into the chart's proxyDefaults.podTemplate"
	release := []byte(`{"spec":{"containers":[{"name":"logs","image":"x"}]}}`)
	for overlay, want := range map[string]string{
		`{spec: {containers: [{name: side, image: x}]}}`:    "spec.proxy.podTemplate.spec.containers[name=side]: " + says,
		`{spec: {containers: [{name: logs, image: evil}]}}`: "spec.proxy.podTemplate.spec.containers[name=logs]: " + says,
		`{spec: {initContainers: [{name: side, image: x}]}}`: "spec.proxy.podTemplate.spec.initContainers[name=side]: " +
			says,
		`{spec: {containers: [{name: proxy}], nodeName: "a"}}`: "",
	} {
		opts := options
		opts.ProxyTemplate = release
		remote := &v1alpha1.MCPRemoteProxy{}
		remote.Spec.Proxy = &v1alpha1.ProxySpec{PodTemplate: raw(t, overlay)}
		_, problems := proxyWith(remote, opts)
		if got := Problems(Sorted(problems)).Error(); got != want {
			t.Errorf("%s: got %q, want %q", overlay, got, want)
		}
		opts.RemoteContainers = true
		if _, problems = proxyWith(remote, opts); len(problems) > 0 {
			t.Errorf("%s, where the platform lets it: %v", overlay, problems)
		}
	}
}
