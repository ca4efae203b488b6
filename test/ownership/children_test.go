package ownership

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// echo is a server as the API server would hand it over.
func echo(change func(*v1alpha1.MCPServerSpec)) *v1alpha1.MCPServer {
	echo := &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "default", UID: "uid-of-echo"},
		Spec: v1alpha1.MCPServerSpec{
			Image: "registry.example.com/echo:1", Args: []string{"--http"}, Transport: v1alpha1.TransportStreamableHTTP,
			ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
				Path: "/mcp", Proxy: &v1alpha1.ProxySpec{Replicas: new(int32(1)), Port: 8000},
			},
			Port: 8080, Replicas: new(int32(1)), Env: []corev1.EnvVar{{Name: "A", Value: "a"}},
		},
	}
	if change != nil {
		change(&echo.Spec)
	}
	return echo
}

// built are all intents of a server's objects under one generation.
type built struct {
	run           runconfig.RunConfig
	proxy         *appsv1ac.DeploymentApplyConfiguration
	backend       *appsv1ac.StatefulSetApplyConfiguration
	configMap     any
	proxyService  any
	backendFronts map[string]any
	identity      map[ownership.Object]any
}

func build(t *testing.T, server *v1alpha1.MCPServer, generation int64) built {
	t.Helper()
	opts := podtemplate.Release{RunnerImage: "freehold.dev/runner:test"}
	rendered := workload.Render(workload.Input{Object: server}, opts)
	if len(rendered.Problems) > 0 {
		t.Fatalf("the content has problems: %v", rendered.Problems)
	}
	run := rendered.Claimed(generation)
	owner := workload.OwnerOf(server)
	b := built{run: run, proxyService: workload.ProxyService(owner, server.Spec.Proxy)}
	var err error
	b.proxy, err = rendered.Proxy(generation)
	must(t, err)
	b.backend, err = workload.Backend(run)
	must(t, err)
	b.configMap, err = rendered.ConfigMap(generation)
	must(t, err)
	b.backendFronts = map[string]any{
		workload.BackendName("echo"):  workload.BackendService(run),
		workload.HeadlessName("echo"): workload.HeadlessService(run),
	}
	b.identity = map[ownership.Object]any{
		contract.ServiceAccount: workload.ServiceAccount(owner), contract.Role: workload.Role(owner),
		contract.RoleBinding: workload.RoleBinding(owner),
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stated expects that the intent changes nothing the second time, also after
// another applier came: an intent that is not as the API server stores it
// would.
func stated(live *live, manager string, intent any) {
	live.Helper()
	live.Apply(manager, intent)
	live.Apply("labeller", `metadata: {labels: {team: red}}`)
	if live.Apply(manager, intent) {
		live.Errorf("the second apply of %s changed something", manager)
	}
	live.Owns("labeller", "metadata.labels.team")
}

func TestEveryObjectStaysWithinItsGrantAndStill(t *testing.T) {
	b := build(t, echo(nil), 1)
	stated(child(t, contract.Deployment, "echo-proxy"), children, b.proxy)
	stated(child(t, contract.StatefulSet, "echo-backend"), backend, b.backend)
	stated(child(t, contract.Service, "echo-proxy"), children, b.proxyService)
	rev := revision.Revision{Generation: b.run.Workload.Generation, Hash: b.run.Workload.Hash}
	stated(child(t, contract.ConfigMap, workload.RunConfigName("echo", rev)), children, b.configMap)
	for name, service := range b.backendFronts {
		stated(child(t, contract.Service, name), backend, service)
	}
	for kind, manager := range map[ownership.Object]string{
		contract.ServiceAccount: children, contract.Role: rights,
		contract.RoleBinding: rights,
	} {
		stated(child(t, kind, "echo-runner"), manager, b.identity[kind])
	}
}

func TestOthersMayAddToTheProxy(t *testing.T) {
	live := child(t, contract.Deployment, "echo-proxy")
	live.Apply(children, build(t, echo(nil), 1).proxy)
	live.Apply("mesh", `
metadata: {annotations: {mesh.example.com/inject: "true"}}
spec: {template: {metadata: {labels: {mesh: "on"}}, spec: {containers: [{name: sidecar, image: mesh}]}}}`)
	live.Update(person, func(o map[string]any) { // kubectl rollout restart
		template := o["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
		template["annotations"].(map[string]any)["kubectl.kubernetes.io/restartedAt"] = "now"
	})
	live.Apply(children, build(t, echo(func(s *v1alpha1.MCPServerSpec) { s.Image = "registry.example.com/echo:2" }),
		2).proxy)

	live.Owns("mesh", `metadata.annotations["mesh.example.com/inject"]`, "spec.template.metadata.labels.mesh",
		"spec.template.spec.containers[name=sidecar]")
	live.Owns(person, `spec.template.metadata.annotations["kubectl.kubernetes.io/restartedAt"]`)
	live.Has("mesh", "spec", "template", "spec", "containers", "sidecar", "image")
	live.Has("2", "spec", "template", "metadata", "annotations", revision.AnnotationGeneration)
}

func TestOurContainersAreRepaired(t *testing.T) {
	live := child(t, contract.StatefulSet, "echo-backend")
	intent := build(t, echo(nil), 1).backend
	live.Apply(backend, intent)
	live.Update("intruder", func(o map[string]any) {
		pod := o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		container := pod["containers"].([]any)[0].(map[string]any)
		container["image"], container["args"] = "evil", []any{"--evil"}
		container["securityContext"].(map[string]any)["runAsNonRoot"] = false
		pod["securityContext"].(map[string]any)["runAsNonRoot"] = false
		container["tty"] = true
	})
	if !live.Apply(backend, intent) {
		t.Error("the repair changed nothing")
	}
	pod := []any{"spec", "template", "spec"}
	ours := append(pod, "containers", podtemplate.ServerContainer)
	live.Has("registry.example.com/echo:1", append(ours, "image")...)
	live.Has([]any{"--http"}, append(ours, "args")...)
	live.Has(true, append(pod, "securityContext", "runAsNonRoot")...)
	live.Has(true, append(ours, "tty")...) // not a field of ours
	live.Owns("intruder", "spec.template.spec.containers[name=server].tty")
	live.Owns(backend, "spec.template.spec.containers[name=server].image",
		"spec.template.spec.containers[name=server].args")
}

func TestTheBackendsReplicasBelongToTheScaler(t *testing.T) {
	live := child(t, contract.StatefulSet, "echo-backend")
	scaled := func(n int32) any {
		return appsv1ac.StatefulSet("echo-backend", "default").WithSpec(appsv1ac.StatefulSetSpec().WithReplicas(n))
	}
	live.Apply(backend, build(t, echo(nil), 1).backend)
	live.HasNot("spec", "replicas")
	live.Apply(scaler, scaled(3))
	live.Apply(backend, build(t, echo(func(s *v1alpha1.MCPServerSpec) { s.Image = "registry.example.com/echo:2" }),
		2).backend)
	live.Owns(scaler, "spec.replicas")
	live.Has(int64(3), "spec", "replicas")

	live.Scale(person, 7)
	live.Owns(person, "spec.replicas")
	live.Apply(scaler, scaled(3))
	live.Owns(scaler, "spec.replicas")
	live.Has(int64(3), "spec", "replicas")
}

func TestAFieldThatTheSpecDropsIsDropped(t *testing.T) {
	live := child(t, contract.StatefulSet, "echo-backend")
	live.Apply(backend, build(t, echo(func(s *v1alpha1.MCPServerSpec) {
		s.Env = append(s.Env, corev1.EnvVar{Name: "B", Value: "b"})
	}), 1).backend)
	live.Apply("mesh", `spec: {template: {spec: {containers: [{name: server, env: [{name: MESH, value: "1"}]}]}}}`)
	live.Apply(backend, build(t, echo(nil), 2).backend)
	env := []any{"spec", "template", "spec", "containers", podtemplate.ServerContainer, "env"}
	live.HasNot(append(env, "B")...)
	live.Has("a", append(env, "A", "value")...)
	live.Has("1", append(env, "MESH", "value")...)
}

func TestAnotherManagersServiceFieldsStay(t *testing.T) {
	live := child(t, contract.Service, "echo-proxy")
	live.Apply(children, build(t, echo(nil), 1).proxyService)
	live.Apply("cloud", `
metadata: {annotations: {cloud.example.com/lb: internal}}
spec: {sessionAffinity: ClientIP}`)
	live.Apply(children, build(t, echo(func(s *v1alpha1.MCPServerSpec) {
		s.Proxy.Service = &v1alpha1.ProxyService{Labels: map[string]string{"team": "red"}}
	}), 1).proxyService)
	live.Owns("cloud", `metadata.annotations["cloud.example.com/lb"]`, "spec.sessionAffinity")
	live.Owns(children, "metadata.labels.team")
}
