package workload

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

func TestWhatARemoteProxyIsBuiltOf(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "remote.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	object := &v1alpha1.MCPRemoteProxy{}
	if err := yaml.UnmarshalStrict(data, object); err != nil {
		t.Fatal(err)
	}
	form, opts := kinds.Form(object), options
	opts.Remote = &object.Spec
	rendered := Render(form, opts)
	if len(rendered.Problems) > 0 {
		t.Fatal(rendered.Problems)
	}
	proxy, err := rendered.Proxy(7)
	if err != nil {
		t.Fatal(err)
	}
	config, err := rendered.ConfigMap(7)
	if err != nil {
		t.Fatal(err)
	}
	if run, err := runconfig.Decode([]byte(config.Data[runconfig.FileName])); err != nil || run.Verify() != nil {
		t.Errorf("its run config cannot be read: %v, %v", err, run.Verify())
	}
	if policy := BackendNetworkPolicy(form, nil); policy != nil {
		t.Error("it has a policy for a backend")
	}
	owner := OwnerOf(form)
	for kind, ac := range map[string]any{
		"serviceaccount": ServiceAccount(owner), "role": Role(owner), "rolebinding": RoleBinding(owner),
		"run-config": config, "proxy": proxy, "proxy-service": ProxyService(owner, form.Spec.Proxy),
	} {
		got, err := yaml.Marshal(ac)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", "remote", kind+".yaml"), got)
	}
}
