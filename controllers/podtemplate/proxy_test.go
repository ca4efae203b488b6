package podtemplate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// What a spec states counts as a whole, then what the release states, then ours.
func TestWhoseResourcesAProxyGets(t *testing.T) {
	release := &v1alpha1.Resources{}
	if err := yaml.Unmarshal([]byte(`{limits: {memory: 1Gi}}`), release); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		spec           string
		release        *v1alpha1.Resources
		memory, demand string
	}{
		"nobody's":                  {`{image: i}`, nil, "256Mi", "10m"},
		"the release's":             {`{image: i}`, release, "1Gi", "0"},
		"the release's, for empty":  {`{image: i, proxy: {resources: {}}}`, release, "1Gi", "0"},
		"the spec's, as a whole":    {`{image: i, proxy: {resources: {requests: {cpu: 70m}}}}`, release, "0", "70m"},
		"the spec's, without other": {`{image: i, proxy: {resources: {limits: {memory: 2Gi}}}}`, nil, "2Gi", "0"},
	} {
		server := serverWith(t, tc.spec)
		if server.Spec.Proxy == nil {
			server.Spec.Proxy = &v1alpha1.ProxySpec{}
		}
		opts := options
		opts.ProxyResources = tc.release
		template, problems := Proxy(Names{
			Labels: map[string]string{"a": "b"}, ServiceAccount: "echo-runner",
			RunConfig: "echo-run-0-",
		}, server.GetProxySpec(), runspec.For(server), opts)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got := template.Spec.Containers[0].Resources
		of := func(list *corev1.ResourceList, name corev1.ResourceName) string {
			if list == nil {
				return "0"
			}
			quantity := (*list)[name]
			return quantity.String()
		}
		memory, demand := of(got.Limits, corev1.ResourceMemory), of(got.Requests, corev1.ResourceCPU)
		if memory != tc.memory || demand != tc.demand {
			t.Errorf("%s: limit of memory %s and request of CPU %s, want %s and %s", name, memory, demand, tc.memory, tc.demand)
		}
	}
}
