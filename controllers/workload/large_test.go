package workload

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// Nothing of a spec that is too large is rendered but which checks the proxy makes, by which
// it is seen whether what runs may go on.
func TestOfASpecThatIsTooLargeOnlyChecksAreRendered(t *testing.T) {
	filler := &runtime.RawExtension{Raw: []byte(`{"metadata": {"annotations": {"a": "` + strings.Repeat("x", runspec.Largest) + `"}}}`)}
	server, remote := read(t, "full"), &v1alpha1.MCPRemoteProxySpec{ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{Proxy: &v1alpha1.ProxySpec{PodTemplate: filler}}}
	whole := sound(t, server, options)
	login := read(t, "full")
	login.Spec.AuthzConfig, login.Spec.AuthzConfigRef, login.Spec.OIDCConfigRef = nil, nil, nil
	for name, tc := range map[string]struct {
		server *v1alpha1.MCPServer
		remote *v1alpha1.MCPRemoteProxySpec
		guards bool
	}{"a server": {server, nil, true}, "one without checks": {login, nil, false}, "a remote proxy": {login, remote, false}} {
		opts := options
		if opts.Remote = tc.remote; tc.remote == nil {
			tc.server.Spec.PodTemplate = filler
		}
		got := Render(tc.server, opts)
		if len(got.Problems) != 1 || !strings.HasPrefix(got.Problems.Error(), "spec: more than 393216 characters: move ") {
			t.Fatalf("%s: %.300v", name, got.Problems)
		}
		if got.Hash != "" || got.proxy != nil || got.Content.Backend.Image != "" {
			t.Errorf("%s is rendered", name)
		}
		if podtemplate.Guarded(nil, got.Content.Proxy) == tc.guards {
			t.Errorf("%s: what makes no checks may go on: %t", name, tc.guards)
		}
	}
	if got := Render(server, options); podtemplate.Guarded(map[string]string{podtemplate.AnnotationGuards: ""}, got.Content.Proxy) != podtemplate.Guarded(nil, whole.Content.Proxy) {
		t.Error("it asks for other checks than the whole one")
	}
}
