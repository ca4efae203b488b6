package plugin

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

// What an apply would do is said before it is done, and nothing is written.
func TestAPlanSaysWhatAnApplyWouldDo(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	before := s.Versions()
	for name, tc := range map[string]struct {
		file  string
		code  int
		says  []string
		never string
	}{
		"nothing": {
			kit.Server("echo", "registry.example.com/echo:1", ""), 0,
			[]string{"MCPServer/echo does not change"},
			"pods",
		},
		"an image": {
			kit.Server("echo", "registry.example.com/echo:2", "replicas: 3"), 1,
			[]string{
				`spec.image: "registry.example.com/echo:1" -> "registry.example.com/echo:2"`, "spec.replicas: 1 -> 3",
				"pods of the proxy are replaced, by spec.image\n",
				"pods of the backend are replaced by others that come up beside those that serve, by spec.image\n",
				"pods of the backend are scaled from 1 to 3\n",
			},
			"is new",
		},
		"what new pods read": {
			kit.Server("echo", "registry.example.com/echo:1", "envFrom: [{secretRef: {name: token}}]"), 1,
			[]string{
				"pods of the backend are replaced by others that come up beside those that serve, by spec.envFrom\n" +
					"  they read, as it is then: Secret/token\n",
			},
			"",
		},
		"the proxy": {
			kit.Server("echo", "registry.example.com/echo:1", "proxy: {publicURL: 'https://echo.example.com'}"), 1,
			[]string{
				"pods of the proxy are replaced, by spec.proxy\n", "pods of the backend stay\n",
				"proxyDefaults of the chart are not known here",
			},
			"",
		},
		"replicas": {
			kit.Server("echo", "registry.example.com/echo:1", "replicas: 2"), 1,
			[]string{"pods of the proxy stay\n", "pods of the backend are scaled from 1 to 2\n"},
			"backend stay",
		},
		"no replicas": {
			kit.Server("echo", "registry.example.com/echo:1", "replicas: 0"), 1,
			[]string{"pods of the proxy all end\n", "pods of the backend all end\n"},
			"stay",
		},
		"suspended, with another image": {
			kit.Server("echo", "registry.example.com/echo:2", "suspend: true"), 1,
			[]string{"pods of the proxy all end\n", "pods of the backend all end\n"},
			"replaced",
		},
		"more proxies": {
			kit.Server("echo", "registry.example.com/echo:1", "proxy: {replicas: 4}"), 1,
			[]string{"pods of the proxy are scaled from 1 to 4\n", "pods of the backend stay\n"},
			"proxy stay",
		},
		"one is refused beside one that changes": {
			kit.Server("echo", "registry.example.com/echo:2", "") + "\n---\n" +
				kit.Server("other", "registry.example.com/echo:1", "port: 99999"), 2,
			[]string{"MCPServer/echo changes", "error: ", "spec.port"},
			"MCPServer/other",
		},
		"what is not accepted": {
			kit.Server("echo", "registry.example.com/echo:1", "podTemplate: {spec: {hostNetwork: true}}"), 2,
			[]string{"not accepted: spec.podTemplate.spec.hostNetwork", "not all would be accepted"},
			"are replaced",
		},
		"what the API server refuses": {
			kit.Server("echo", "registry.example.com/echo:1", "port: 99999"), 2, []string{"spec.port"}, "are replaced",
		},
		"a missing configuration": {
			kit.Server("echo", "registry.example.com/echo:1", "oidcConfigRef: {name: company}"), 2,
			[]string{`not accepted: spec.oidcConfigRef`, "does not exist in this namespace"},
			"are replaced",
		},
		"several": {
			kit.Server("other", "registry.example.com/echo:1", "") + "\n---\n" +
				"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n" +
				kit.Server("echo", "registry.example.com/echo:1", ""), 1,
			[]string{"MCPServer/other is new", "left out: ConfigMap/a", "MCPServer/echo does not change"},
			"pods",
		},
	} {
		got := s.asks(tc.file, "plan", "-f", "-", "--field-manager", "git")
		if got.code != tc.code {
			t.Errorf("%s: the exit code is %d:\n%s%s", name, got.code, got.out, got.err)
		}
		for _, text := range tc.says {
			if !strings.Contains(got.out+got.err, text) {
				t.Errorf("%s: it does not say %q:\n%s%s", name, text, got.out, got.err)
			}
		}
		if tc.never != "" && strings.Contains(got.out, tc.never) {
			t.Errorf("%s: it says %q:\n%s", name, tc.never, got.out)
		}
	}
	s.says(s.asks(kit.Server("echo", "registry.example.com/echo:2", ""), "plan", "-f", "-"), 2, `"git"`, ".spec.image",
		"--force-conflicts")
	s.says(s.asks(kit.Server("echo", "registry.example.com/echo:2", ""), "plan", "-f", "-", "--force-conflicts", "-o",
		"json"), 1, `"backend": [`, `"field": "spec.image"`)
	s.NothingMoved(before)
	applied := s.Intent(kit.Server("plain", "registry.example.com/echo:1", "args: [--verbose]"))
	s.Must(plane.Client.Create(s.Ctx, applied, client.FieldOwner("kubectl-client-side-apply")), "applying client-side")
	s.says(s.asks(kit.Server("plain", "registry.example.com/echo:1", ""), "plan", "-f", "-", "--force-conflicts"), 2,
		`"kubectl-client-side-apply" writes MCPServer/plain without server-side apply`)
}
