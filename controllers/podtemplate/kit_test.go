package podtemplate

import (
	"strings"
	"testing"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

var options = Release{RunnerImage: "freehold.dev/runner:test", RunnerPullPolicy: "IfNotPresent"}

// serverWith is a server called echo with a spec of YAML.
func serverWith(t testing.TB, spec string) *v1alpha1.MCPServer {
	t.Helper()
	server := &v1alpha1.MCPServer{}
	server.Name, server.Namespace, server.UID = "echo", "team-a", "1111"
	if err := yaml.UnmarshalStrict([]byte(spec), &server.Spec); err != nil {
		t.Fatal(err)
	}
	return server
}

func minimal(t testing.TB) *v1alpha1.MCPServer {
	t.Helper()
	return serverWith(t, "{image: registry.example.com/echo:1}")
}

func backendOf(server *v1alpha1.MCPServer) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	return Backend(runspec.For(server).Backend, map[string]string{"app.kubernetes.io/component": "backend"})
}

func proxyOf(server *v1alpha1.MCPServer) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	return proxyWith(server, options)
}

func proxyWith(object kinds.Object, opts Release) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	names := Names{
		Labels: map[string]string{"app.kubernetes.io/component": "proxy"}, ServiceAccount: "echo-runner",
		RunConfig: "echo-run-0-",
	}
	return Proxy(names, object.GetProxySpec(), runspec.For(object), opts)
}

// problemsOf are the texts of all problems of a server's templates.
func problemsOf(server *v1alpha1.MCPServer) string {
	_, backend := backendOf(server)
	_, proxy := proxyOf(server)
	problems := Sorted(append(append(Check("spec", &server.Spec), backend...), proxy...))
	texts := make([]string, len(problems))
	for i, problem := range problems {
		texts[i] = problem.String()
	}
	return strings.Join(texts, "\n")
}
