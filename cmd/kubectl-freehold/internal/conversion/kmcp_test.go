package conversion

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kmcp's image listens at 3000 where nothing is stated, and ours at 8080.
func TestPortsOfKmcp(t *testing.T) {
	for spec, want := range map[string]struct{ port, proxy any }{
		"{transportType: http, deployment: {image: a}}":                                                {3000, nil},
		"{transportType: http, httpTransport: {path: /a}, deployment: {image: a}}":                     {3000, nil},
		"{transportType: http, deployment: {image: a, port: 4000}}":                                    {4000, nil},
		"{transportType: http, httpTransport: {targetPort: 5000}, deployment: {image: a}}":             {5000, nil},
		"{transportType: http, httpTransport: {targetPort: 5000}, deployment: {image: a, port: 4000}}": {5000, 4000},
		"{transportType: stdio, deployment: {image: a, cmd: b}}":                                       {nil, nil},
		"{transportType: stdio, httpTransport: {targetPort: 5000}, deployment: {image: a, cmd: b}}":    {5000, nil},
		"{transportType: stdio, deployment: {image: a, cmd: b, port: 4000}}":                           {nil, 4000},
		"{deployment: {image: a, cmd: b}}":                                                             {nil, nil},
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("{apiVersion: kagent.dev/v1alpha1, kind: MCPServer, metadata: {name: a}, spec: "+spec+
			"}"), &u.Object); err != nil {
			t.Fatal(err)
		}
		results, err := of(u)
		if err != nil {
			t.Fatal(err)
		}
		port, _ := get(results[0].Object, "spec.port")
		proxy, _ := get(results[0].Object, "spec.proxy.port")
		if fmt.Sprint(port, proxy) != fmt.Sprint(want.port, want.proxy) {
			t.Errorf("%s: spec.port is %v and spec.proxy.port %v, want %v and %v", spec, port, proxy, want.port, want.proxy)
		}
	}
}
