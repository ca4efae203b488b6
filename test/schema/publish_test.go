package schema

import (
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

var (
	blocks = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	curl   = regexp.MustCompile(`curl -si (\S+) `)
)

// What docs/how-to/publish.md shows leads to what the operator makes: the proxy's Service,
// the path of MCP and that of the login's metadata (RFC 9728, section 3.1). The HTTPRoute
// is judged as the API server would with Gateway API's CRD; a real API server judges the
// Ingress in test/input.
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
		if err := yaml.UnmarshalStrict([]byte(text), object); text == "" || err != nil && kind != "kind: HTTPRoute" {
			t.Fatalf("%s: %v\n%s", kind, err, text)
		}
		if kind == "kind: HTTPRoute" {
			for _, problem := range judged(t, text) {
				t.Errorf("the HTTPRoute: %s", problem)
			}
			if err := yaml.Unmarshal([]byte(text), object); err != nil {
				t.Fatal(err)
			}
		}
	}

	server.Namespace = "team"
	login := &v1alpha1.MCPOIDCConfig{Spec: v1alpha1.MCPOIDCConfigSpec{OIDC: &v1alpha1.OIDCIssuer{Issuer: "https://login.example.com"}}}
	rendered := workload.Render(server, podtemplate.Options{RunnerImage: "freehold.dev/runner:test", Login: login})
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

// The CRD with which HTTPRoutes are judged finds what is wrong with one.
func TestAWrongHTTPRouteIsRefused(t *testing.T) {
	const route = "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: a}, spec: %}"
	for mistake, row := range map[string]struct{ spec, says string }{
		"none":            {"{rules: [{backendRefs: [{name: a, port: 8000}]}]}", ""},
		"unknown field":   {"{rules: [{backendRef: {name: a}}]}", "spec.rules[0].backendRef"},
		"another type":    {"{rules: [{matches: [{path: {type: Prefix, value: /a}}]}]}", "spec.rules[0].matches[0].path.type"},
		"no port":         {"{rules: [{backendRefs: [{name: a}]}]}", "Must have port for Service reference"},
		"a timeout":       {"{rules: [{timeouts: {request: 1 hour}}]}", "spec.rules[0].timeouts.request"},
		"timeouts differ": {"{rules: [{timeouts: {request: 1s, backendRequest: 2s}}]}", "backendRequest timeout cannot be longer than request timeout"},
	} {
		problems := strings.Join(judged(t, strings.Replace(route, "%", row.spec, 1)), "\n")
		if !strings.Contains(problems, row.says) || (row.says == "") != (problems == "") {
			t.Errorf("%s: %q, want %q", mistake, problems, row.says)
		}
	}
}

// judged are the API server's objections to an HTTPRoute: fields that it does not know,
// and what schema and rules refuse after defaulting.
func judged(t *testing.T, manifest string) (problems []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/httproutes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd, object := &apiextensionsv1.CustomResourceDefinition{}, map[string]any{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	written, err := yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	if err := utiljson.Unmarshal(written, &object); err != nil { // whole numbers are int64, as rules need them
		t.Fatal(err)
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	shape, err := structural.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	problems = pruning.PruneWithOptions(object, shape, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.Default(object, shape)
	refused := validation.ValidateCustomResource(field.NewPath(""), object, validator)
	broken, _ := cel.NewValidator(shape, true, celconfig.PerCallLimit).Validate(t.Context(), nil, shape, object, nil, celconfig.RuntimeCELCostBudget)
	for _, err := range append(refused, broken...) {
		problems = append(problems, err.Error())
	}
	return problems
}

// lead is one path, and the port of the Service to which it leads.
type lead struct {
	host, match, path, service string
	port                       int32
}

func ofIngress(ingress *networkingv1.Ingress) (leads []lead) {
	for _, rule := range ingress.Spec.Rules {
		for _, path := range rule.HTTP.Paths {
			leads = append(leads, lead{rule.Host, string(*path.PathType), path.Path, path.Backend.Service.Name, path.Backend.Service.Port.Number})
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
					leads = append(leads, lead{host, strings.TrimPrefix(match.Path.Type, "Path"), match.Path.Value, ref.Name, ref.Port})
				}
			}
		}
	}
	return leads
}
