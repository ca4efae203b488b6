package identity

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// server is an MCPServer and what is stated about it and its objects.
type server struct {
	object *v1alpha1.MCPServer
	// intents are by resource; those of a runner are under "runner/", and those about
	// the children of an MCPRemoteProxy of its name end in ofRemote.
	intents map[string]*unstructured.Unstructured
}

// ofRemote ends a resource of an MCPRemoteProxy.
const ofRemote = "@remote"

// proxyOnly asks for a NetworkPolicy.
const proxyOnly = "network: {backendIngress: ProxyOnly}"

// makeServer makes a server of which there is nothing yet.
func makeServer(t *testing.T, s *kit.Env, name string) *server {
	t.Helper()
	s.Apply("git", kit.Server(name, "registry.example.com/echo:1", proxyOnly))
	made := &server{object: &v1alpha1.MCPServer{}, intents: map[string]*unstructured.Unstructured{}}
	made.object.Name = name
	s.Read(made.object)
	options := podtemplate.Release{RunnerImage: "freehold.dev/runner:test"}
	rendered := workload.Render(workload.Input{Object: made.object}, options)
	if len(rendered.Problems) > 0 {
		t.Fatal(rendered.Problems)
	}
	run := rendered.Claimed(1)
	owner := workload.OwnerOf(made.object)
	config, err := rendered.ConfigMap(1)
	s.Must(err, "building the run config")
	proxy, err := rendered.Proxy(1)
	s.Must(err, "building the proxy")
	backend, err := workload.Backend(run, workload.Slot1)
	s.Must(err, "building the backend")
	content, err := rendered.StoredContent(made.object, 1)
	s.Must(err, "building what history keeps")
	for resource, ac := range map[string]any{
		"controllerrevisions": content,
		"serviceaccounts":     workload.ServiceAccount(owner),
		"roles":               workload.Role(owner, v1alpha1.BackendContent{Hash: run.Rendering.Backend}),
		"rolebindings":        workload.RoleBinding(owner),
		"configmaps":          config, "deployments": proxy,
		"services":        workload.ProxyService(owner, made.object.Spec.Proxy),
		"networkpolicies": workload.BackendNetworkPolicy(made.object, podtemplate.Release{}),
		"secrets": workload.SessionSecret(owner, workload.SessionName(owner.Key(), owner.UID),
			strings.Repeat("k", 32)),
		"httproutes":   workload.ProxyHTTPRoute(owner, routed(made.object)),
		"statefulsets": backend, "runner/services": workload.BackendService(run, workload.Slot1),
	} {
		made.intents[resource] = unstructuredOf(s, ac)
	}
	made.intents["scale"] = made.intents["statefulsets"].DeepCopy()
	made.intents["scale"].Object["metadata"] = map[string]any{"name": workload.BackendName(name), "namespace": s.Namespace}
	made.intents["scale"].Object["spec"] = map[string]any{"replicas": int64(0)}
	const reported = "status: {observedGeneration: 1}"
	made.states(s, contract.MCPServer, "mcpservers", "metadata: {finalizers: ["+contract.Finalizer+"]}")
	made.states(s, contract.MCPServer, "mcpservers/status", reported)
	made.states(s, contract.MCPServer, "runner/mcpservers/status",
		`status: {conditions: [{type: BackendApplied, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	made.remote(t, s)
	s.Apply("git", "{apiVersion: freehold.dev/v1alpha1, kind: MCPOIDCConfig, metadata: {name: "+name+
		"}, spec: {oidc: {issuer: 'https://a.example.com'}}}")
	s.Apply("git", "{apiVersion: freehold.dev/v1alpha1, kind: MCPAuthzConfig, metadata: {name: "+name+
		"}, spec: {policies: [{name: a, policy: 'permit(principal, action, resource);'}]}}")
	s.Apply("git", "{apiVersion: freehold.dev/v1alpha1, kind: MCPGroup, metadata: {name: "+name+"}}")
	for _, c := range contract.Configs() {
		made.states(s, c.Object, c.Object.Resource(), "metadata: {finalizers: ["+c.Finalizer+"]}")
		made.states(s, c.Object, c.Object.Resource()+"/status", reported)
	}
	return made
}

// remote makes an MCPRemoteProxy of the server's name of which there is nothing yet.
func (made *server) remote(t *testing.T, s *kit.Env) {
	t.Helper()
	object := &v1alpha1.MCPRemoteProxy{}
	object.Name = made.object.Name
	s.Apply("git", "{apiVersion: freehold.dev/v1alpha1, kind: MCPRemoteProxy, metadata: {name: "+object.Name+
		"}, spec: {url: 'https://mcp.example.com/mcp'}}")
	s.Read(object)
	rendered := workload.Render(workload.Input{Object: object},
		podtemplate.Release{RunnerImage: "freehold.dev/runner:test"})
	if len(rendered.Problems) > 0 {
		t.Fatal(rendered.Problems)
	}
	config, err := rendered.ConfigMap(1)
	s.Must(err, "building the run config")
	proxy, err := rendered.Proxy(1)
	s.Must(err, "building the proxy")
	owner := workload.OwnerOf(object)
	for resource, ac := range map[string]any{
		"serviceaccounts": workload.ServiceAccount(owner), "roles": workload.Role(owner),
		"rolebindings": workload.RoleBinding(owner),
		"configmaps":   config, "deployments": proxy, "services": workload.ProxyService(owner, object.Spec.Proxy),
		"secrets":    workload.SessionSecret(owner, workload.SessionName(owner.Key(), owner.UID), strings.Repeat("k", 32)),
		"httproutes": workload.ProxyHTTPRoute(owner, routed(object)),
	} {
		made.intents[resource+ofRemote] = unstructuredOf(s, ac)
	}
	made.states(s, contract.MCPRemoteProxy, "mcpremoteproxies",
		"metadata: {finalizers: ["+contract.MCPRemoteProxies().Finalizer+"]}")
	made.states(s, contract.MCPRemoteProxy, "mcpremoteproxies/status", "status: {observedGeneration: 1}")
	made.states(s, contract.MCPRemoteProxy, "runner/mcpremoteproxies/status",
		`status: {conditions: [{type: BackendAnswers, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
}

// routed is the spec of an object with an HTTPRoute.
func routed(object kinds.Object) *v1alpha1.ProxyWorkloadSpec {
	spec := object.GetProxySpec().DeepCopy()
	spec.Proxy = &v1alpha1.ProxySpec{HTTPRoute: &v1alpha1.ProxyHTTPRoute{
		ParentRefs: []v1alpha1.RouteParent{{Name: "public"}}, Hostnames: []string{"mcp.example.com"},
	}}
	return spec
}

// states keeps an intent about an object of the server's name.
func (made *server) states(s *kit.Env, object ownership.Object, resource, fields string) {
	s.Helper()
	intent := &unstructured.Unstructured{}
	s.Must(yaml.Unmarshal([]byte(fields), &intent.Object), "reading an intent")
	intent.SetGroupVersionKind(object.GroupVersionKind)
	intent.SetName(made.object.Name)
	intent.SetNamespace(s.Namespace)
	made.intents[resource] = intent
}

func unstructuredOf(s *kit.Env, ac any) *unstructured.Unstructured {
	s.Helper()
	text, err := json.Marshal(ac)
	s.Must(err, "writing an intent")
	intent := &unstructured.Unstructured{}
	s.Must(json.Unmarshal(text, &intent.Object), "reading an intent")
	return intent
}

// apply applies by force, as the writer does.
func (*server) apply(
	ctx context.Context, c client.Client, manager ownership.Manager, sub string, intent *unstructured.Unstructured,
) error {
	ac := client.ApplyConfigurationFromUnstructured(intent.DeepCopy())
	options := client.ApplyOptions{FieldManager: string(manager), Force: new(true)}
	if sub == "" {
		return c.Apply(ctx, ac, &options)
	}
	return c.SubResource(sub).Apply(ctx, ac, &client.SubResourceApplyOptions{ApplyOptions: options})
}

// stands has the object of an intent there, by somebody else's hand.
func (*server) stands(s *kit.Env, intent *unstructured.Unstructured) {
	s.Helper()
	s.Must(s.Client.Apply(s.Ctx, client.ApplyConfigurationFromUnstructured(intent.DeepCopy()),
		client.FieldOwner("somebody")), "making what stands")
}
