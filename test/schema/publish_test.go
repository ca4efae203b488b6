package schema

import (
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

var (
	blocks = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	curl   = regexp.MustCompile(`curl -si (\S+) `)
)

// What docs/how-to/publish.md shows leads to what the operator makes: the proxy's Service, the path of MCP and that of
// the login's metadata (RFC 9728, section 3.1). A real API server takes it all in test/integration.
func TestThePublishedPathsLeadToTheProxy(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/publish.md")
	if err != nil {
		t.Fatal(err)
	}
	server, ingress, route := &v1alpha1.MCPServer{}, &networkingv1.Ingress{}, &httpRoute{}
	into := map[string]any{"kind: MCPServer": server, "kind: Ingress": ingress, "kind: HTTPRoute": route}
	for kind, object := range into {
		text := ""
		for _, block := range blocks.FindAllSubmatch(page, -1) {
			if strings.Contains(string(block[1]), kind) {
				text += string(block[1])
			}
		}
		if err := yaml.Unmarshal([]byte(text), object); text == "" || err != nil {
			t.Fatalf("%s: %v\n%s", kind, err, text)
		}
	}

	server.Namespace = "team"
	login := &v1alpha1.MCPOIDCConfig{
		Spec: v1alpha1.MCPOIDCConfigSpec{OIDC: &v1alpha1.OIDCIssuer{Issuer: "https://login.example.com"}},
	}
	rendered := workload.Render(workload.Input{Object: server, Configs: registry.Read(login)},
		podtemplate.Release{RunnerImage: "freehold.dev/runner:test"})
	if len(rendered.Problems) > 0 {
		t.Fatal(rendered.Problems)
	}
	service := workload.ProxyService(workload.OwnerOf(server), server.Spec.Proxy)
	resource, err := url.Parse(rendered.Content.Proxy.Authentication.Resource)
	if err != nil {
		t.Fatal(err)
	}
	if asked := curl.FindStringSubmatch(string(page)); len(asked) != 2 || asked[1] != resource.String() {
		t.Errorf("the page asks %q, and the server is %s", asked, resource)
	}

	for kind, leads := range map[string][]lead{"Ingress": ofIngress(ingress), "HTTPRoute": route.leads()} {
		for _, path := range []string{resource.Path, "/.well-known/oauth-protected-resource" + resource.Path} {
			found := false
			for _, l := range leads {
				found = found || strings.HasPrefix(path+"/", strings.TrimSuffix(l.path, "/")+"/")
			}
			if !found {
				t.Errorf("%s: nothing leads to %s", kind, path)
			}
		}
		for _, l := range leads {
			if want := (lead{resource.Hostname(), "Prefix", l.path, *service.Name, *service.Spec.Ports[0].Port}); l != want {
				t.Errorf("%s: %+v, want %+v", kind, l, want)
			}
		}
	}
}

// lead is one path, and the port of the Service to which it leads.
type lead struct {
	host, match, path, service string
	port                       int32
}

func ofIngress(ingress *networkingv1.Ingress) (leads []lead) {
	for _, rule := range ingress.Spec.Rules {
		for _, path := range rule.HTTP.Paths {
			leads = append(leads, lead{
				rule.Host, string(*path.PathType), path.Path, path.Backend.Service.Name,
				path.Backend.Service.Port.Number,
			})
		}
	}
	return leads
}

// httpRoute is what of an HTTPRoute tells where it leads.
type httpRoute struct {
	Spec struct {
		Hostnames []string
		Rules     []struct {
			Matches     []struct{ Path struct{ Type, Value string } }
			BackendRefs []struct {
				Name string
				Port int32
			}
		}
	}
}

func (r *httpRoute) leads() (leads []lead) {
	for _, host := range r.Spec.Hostnames {
		for _, rule := range r.Spec.Rules {
			for _, ref := range rule.BackendRefs {
				for _, match := range rule.Matches {
					leads = append(leads, lead{
						host, strings.TrimPrefix(match.Path.Type, "Path"), match.Path.Value, ref.Name,
						ref.Port,
					})
				}
			}
		}
	}
	return leads
}
