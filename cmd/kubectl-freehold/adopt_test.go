package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/golden"
)

func adopted(t *testing.T, file, stage string) string {
	t.Helper()
	d := sit("")
	args := []string{"import", "--images=never", "-f", file, "--adopt=" + stage}
	if code := d.run(t.Context(), args); code == exitError {
		t.Fatal(d.said(code))
	}
	return d.out.String()
}

// servedBy is the object of a document, nil if clients do not call it.
func servedBy(t *testing.T, document string) kinds.Object {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
		t.Fatal(err)
	}
	kind, known := kinds.Named(meta.Kind)
	if !known || meta.Kind == "" {
		return nil
	}
	object := kind.New()
	if err := yaml.Unmarshal([]byte(document), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// withoutService are objects of others that only say where a server is.
var withoutService = regexp.MustCompile(`(of kagent|From MCPServerEntry .*|From LiteLLMMCPServer ai/grafana.*)\.\n`)

// Nothing of ours serves while theirs does, and then a Service of the old name leads to
// the pods that ours selects, at a host that the proxy knows.
func TestAdoptKeepsTheURL(t *testing.T) {
	adoptions := map[string]int{}
	for _, file := range samples(t) {
		name, before := strings.TrimSuffix(filepath.Base(file), ".yaml"), adoptions["MCPServer"]
		golden.File(t, filepath.Join("testdata", "golden", "adopt-"+name+".yaml"), adopted(t, file, "switch"))
		for _, document := range documents(adopted(t, file, "prepare")) {
			server := servedBy(t, document)
			if strings.Contains(document, "\nkind: Service\n") || server != nil && !server.GetProxySpec().Suspend {
				t.Errorf("%s: it serves beside the other operator's:\n%s", file, document)
			}
		}
		running := documents(adopted(t, file, "switch"))
		for i, document := range running {
			server, service := servedBy(t, document), &corev1.Service{}
			if server == nil || i+1 == len(running) || !strings.Contains(running[i+1], "\nkind: Service\n") &&
				withoutService.MatchString(document) {
				continue
			}
			adoptions[kinds.Of(server).Object.Kind]++
			if err := yaml.UnmarshalStrict([]byte(running[i+1]), service); err != nil {
				t.Fatal(err)
			}
			proxy := server.GetProxySpec().Proxy
			own := workload.ProxyService(workload.OwnerOf(server), proxy)
			if diff := cmp.Diff(own.Spec.Selector, service.Spec.Selector); diff != "" {
				t.Errorf("%s: the Service selects other pods than the proxy's own (-own +old):\n%s", file, diff)
			}
			if *own.Spec.Ports[0].TargetPort != service.Spec.Ports[0].TargetPort {
				t.Errorf("%s: the Service leads to port %s of the proxies, want %s", file, &service.Spec.Ports[0].TargetPort,
					own.Spec.Ports[0].TargetPort)
			}
			host := service.Name + "." + service.Namespace + ".svc.cluster.local:"
			if url := proxy.PublicURL; !strings.HasPrefix(url, "http://"+host) &&
				!strings.Contains(document, "and not that of Service "+service.Name) {
				t.Errorf("%s: the proxy knows itself as %q, and clients call %s", file, url, host)
			}
		}
		if !strings.HasSuffix(file, "kagent.yaml") && adoptions["MCPServer"] == before {
			t.Errorf("%s: no server was adopted", file)
		}
	}
	if adoptions["MCPRemoteProxy"] == 0 {
		t.Error("no remote proxy was adopted")
	}
	d := sit("")
	if code := d.run(t.Context(),
		[]string{"import", "--images=never", "-f", "testdata/import/kmcp.yaml", "--adopt=now"}); code == exitFine ||
		!strings.Contains(d.err.String(), `--adopt is "now": write prepare or switch`) {
		t.Error(d.said(code))
	}
}

// ToolHive's Services of a server and of a remote proxy with one name have two names.
func TestAdoptNamesTheServiceOfEachKindOfToolHive(t *testing.T) {
	for kind, tc := range map[string]struct{ spec, service string }{
		"MCPServer":      {"{image: a, transport: sse, proxyPort: 8085}", "mcp-notes-proxy"},
		"MCPRemoteProxy": {"{remoteUrl: \"https://mcp.example.com/mcp\", proxyPort: 8085}", "mcp-notes-remote-proxy"},
	} {
		object := "apiVersion: toolhive.stacklok.dev/v1beta1\nkind: " + kind +
			"\nmetadata: {name: notes, namespace: tools}\nspec: " + tc.spec + "\n"
		url := "\n    publicURL: http://" + tc.service + ".tools.svc.cluster.local:8085\n"
		for stage, want := range map[string][]string{
			"prepare": {url},
			"switch":  {url, "\nkind: Service\nmetadata:\n  name: " + tc.service + "\n"},
		} {
			d := sit(object)
			code := d.run(t.Context(), []string{"import", "--images=never", "-f", "-", "--adopt=" + stage})
			for _, part := range want {
				if code != exitFine || !strings.Contains(d.out.String(), part) {
					t.Errorf("%s, %s: it lacks %q:\n%s", kind, stage, part, d.said(code))
				}
			}
		}
	}
}
