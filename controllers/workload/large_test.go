package workload

import (
	"cmp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// Nothing of a spec that is too large is rendered but which checks the proxy makes, by which
// it is seen whether what runs may go on.
func TestOfASpecThatIsTooLargeOnlyChecksAreRendered(t *testing.T) {
	filler := &runtime.RawExtension{
		Raw: []byte(`{"metadata": {"annotations": {"a": "` + strings.Repeat("x", runspec.Largest) + `"}}}`),
	}
	server, remote := read(t, "full"), &v1alpha1.MCPRemoteProxy{}
	whole := sound(t, server, options)
	open := read(t, "full")
	open.Spec.AuthzConfig, open.Spec.AuthzConfigRef, open.Spec.OIDCConfigRef = nil, nil, nil
	guarded := &v1alpha1.MCPRemoteProxy{}
	guarded.Spec.AuthzConfigRef = &v1alpha1.LocalReference{Name: "a"}
	for name, tc := range map[string]struct {
		object kinds.Object
		guards bool
	}{
		"a server": {server, true}, "one without checks": {open, false},
		"a remote proxy": {guarded, true}, "one of those without checks": {remote, false},
	} {
		spec := tc.object.GetProxySpec()
		spec.Proxy = cmp.Or(spec.Proxy, &v1alpha1.ProxySpec{})
		spec.Proxy.PodTemplate = filler
		got := render(tc.object, options)
		if len(got.Problems) != 1 || !strings.HasPrefix(got.Problems.Error(), "spec: more than 393216 characters: move ") {
			t.Fatalf("%s: %.300v", name, got.Problems)
		}
		if got.Hash != "" || got.proxy != nil || got.Content.Backend.Image != "" {
			t.Errorf("%s is rendered", name)
		}
		if podtemplate.HasGuards(nil, podtemplate.Guards(got.Content.Proxy)) == tc.guards {
			t.Errorf("%s: what makes no checks may go on: %t", name, tc.guards)
		}
	}
	overlay := &runtime.RawExtension{Raw: filler.Raw[:LargestOverlay+1]}
	for field, edit := range map[string]func(*v1alpha1.MCPServer){
		"spec.podTemplate":       func(s *v1alpha1.MCPServer) { s.Spec.PodTemplate = overlay },
		"spec.proxy.podTemplate": func(s *v1alpha1.MCPServer) { s.Spec.Proxy = &v1alpha1.ProxySpec{PodTemplate: overlay} },
	} {
		heavy := read(t, "full")
		edit(heavy)
		if got := render(heavy, options); got.Problems.Error() != field+
			": is longer than 65536 bytes: keep long values in a ConfigMap or Secret that envFrom or volumes name" ||
			got.Hash != "" || podtemplate.Guards(got.Content.Proxy) != podtemplate.Guards(whole.Content.Proxy) {
			t.Errorf("%s: %.300v", field, got.Problems)
		}
	}
	if got := render(server, options); podtemplate.Guards(got.Content.Proxy) !=
		podtemplate.Guards(whole.Content.Proxy) {
		t.Error("it asks for other checks than the whole one")
	}
}
