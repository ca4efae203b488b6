package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/golden"
)

func adopted(t *testing.T, file, stage string) string {
	t.Helper()
	d := sit("")
	if code := d.run(t.Context(), []string{"import", "-f", file, "--adopt=" + stage}); code != exitFine {
		t.Fatal(d.said(code))
	}
	return d.out.String()
}

// Nothing of ours serves while theirs does, and then a Service of the old name leads to
// the pods that ours selects, at a host that the proxy knows.
func TestAdoptKeepsTheURL(t *testing.T) {
	for _, file := range samples(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		golden.File(t, filepath.Join("testdata", "golden", "adopt-"+name+".yaml"), adopted(t, file, "switch"))
		servers := 0
		for _, document := range documents(adopted(t, file, "prepare")) {
			server := &v1alpha1.MCPServer{}
			if err := yaml.Unmarshal([]byte(document), server); err != nil {
				t.Fatal(err)
			}
			if server.Kind == "Service" || server.Kind == "MCPServer" && !server.Spec.Suspend {
				t.Errorf("%s: it serves beside the other operator's:\n%s", file, document)
			}
		}
		running := documents(adopted(t, file, "switch"))
		for i, document := range running {
			server, service := &v1alpha1.MCPServer{}, &corev1.Service{}
			if err := yaml.Unmarshal([]byte(document), server); err != nil {
				t.Fatal(err)
			}
			if server.Kind != "MCPServer" {
				continue
			}
			servers++
			if err := yaml.UnmarshalStrict([]byte(running[i+1]), service); err != nil {
				t.Fatal(err)
			}
			own := workload.ProxyService(workload.OwnerOf(server), server.Spec.Proxy)
			if diff := cmp.Diff(own.Spec.Selector, service.Spec.Selector); diff != "" {
				t.Errorf("%s: the Service selects other pods than the proxy's own (-own +old):\n%s", file, diff)
			}
			if *own.Spec.Ports[0].TargetPort != service.Spec.Ports[0].TargetPort {
				t.Errorf("%s: the Service leads to port %s of the proxies, want %s", file, &service.Spec.Ports[0].TargetPort, own.Spec.Ports[0].TargetPort)
			}
			host := service.Name + "." + service.Namespace + ".svc.cluster.local:"
			if url := server.Spec.Proxy.PublicURL; !strings.HasPrefix(url, "http://"+host) && !strings.Contains(document, "and not that of Service "+service.Name) {
				t.Errorf("%s: the proxy knows itself as %q, and clients call %s", file, url, host)
			}
		}
		if servers == 0 {
			t.Errorf("%s: no server was adopted", file)
		}
	}
	d := sit("")
	if code := d.run(t.Context(), []string{"import", "-f", "testdata/import/kmcp.yaml", "--adopt=now"}); code == exitFine || !strings.Contains(d.err.String(), `--adopt is "now": write prepare or switch`) {
		t.Error(d.said(code))
	}
}
