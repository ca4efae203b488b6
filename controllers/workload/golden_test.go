package workload

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/test/golden"
)

// read takes a server from testdata. They are written as a user would, with the uid that the API server would add.
func read(t testing.TB, name string) *v1alpha1.MCPServer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	server := &v1alpha1.MCPServer{}
	if err := yaml.UnmarshalStrict(data, server); err != nil {
		t.Fatal(err)
	}
	return server
}

// serverWith is the minimal server with a spec of YAML besides.
func serverWith(t *testing.T, spec string) *v1alpha1.MCPServer {
	t.Helper()
	server := read(t, "minimal")
	if err := yaml.UnmarshalStrict([]byte(spec), &server.Spec); err != nil {
		t.Fatal(err)
	}
	return server
}

// given is what a server is rendered with, beside itself.
type given struct {
	podtemplate.Release
	Configs frame.Set
}

var options = given{
	podtemplate.Release{RunnerImage: "freehold.dev/runner:test", RunnerPullPolicy: "IfNotPresent"},
	registry.Read(login, saying(readers)),
}

func render(object kinds.Object, with given) Rendered {
	return Render(Input{object, with.Configs, ContentsOf(object)}, with.Release)
}

// login is what the full server refers to.
var login = &v1alpha1.MCPOIDCConfig{Spec: v1alpha1.MCPOIDCConfigSpec{OIDC: &v1alpha1.OIDCIssuer{
	Issuer:      "https://login.example.com",
	CABundleRef: &v1alpha1.CABundleReference{LocalReference: v1alpha1.LocalReference{Name: "company-ca"}},
	GroupsClaim: "groups", Introspection: &v1alpha1.Introspection{
		URL: "https://login.example.com/introspect", ClientID: "mcp",
		ClientSecretRef: v1alpha1.SecretKeyReference{
			LocalReference: v1alpha1.LocalReference{Name: "mcp-client"},
			Key:            "password",
		},
	},
}}}

// objects are all intents of a server, by the name of their golden.
func objects(t *testing.T, server *v1alpha1.MCPServer) map[string]any {
	t.Helper()
	return objectsWith(t, server, options)
}

func objectsWith(t *testing.T, server *v1alpha1.MCPServer, options given) map[string]any {
	t.Helper()
	rendered := sound(t, server, options)
	run := rendered.Claimed(7)
	proxy, err := rendered.Proxy(7)
	if err != nil {
		t.Fatal(err)
	}
	backend, err := Backend(run, Slot1)
	if err != nil {
		t.Fatal(err)
	}
	config, err := rendered.ConfigMap(7)
	if err != nil {
		t.Fatal(err)
	}
	owner, runners := OwnerWith(server, options.Objects), RunnersObjects(server)
	all := map[string]any{
		"serviceaccount":   ServiceAccount(owner),
		"role":             Role(owner),
		"rolebinding":      RoleBinding(owner),
		"run-config":       config,
		"proxy":            proxy,
		"proxy-service":    ProxyService(owner, server.Spec.Proxy),
		"backend":          Described(backend, runners),
		"backend-service":  Described(BackendService(run, Slot1), runners),
		"backend-headless": Described(HeadlessService(run, Slot1), runners),
	}
	if policy := BackendNetworkPolicy(server, options.Release); policy != nil {
		all["networkpolicy"] = policy
	}
	return all
}

func TestBuildersMatchTheirGoldens(t *testing.T) {
	for _, name := range []string{"minimal", "full", "odd", "stdio", "sse"} {
		for kind, object := range objects(t, read(t, name)) {
			if name != "minimal" && name != "full" && kind != "backend" {
				continue // they are minimal but for the backend's pods
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				got, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				golden.File(t, filepath.Join("testdata", name, kind+".yaml"), string(got))
			})
		}
	}
}
