package writer

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// full sets what intents can go wrong over: values that the API server writes
// differently, and lists in which others may have items.
const full = `
args: ["--greeting", "", "<&>"]
env:
- {name: EMPTY, value: ""}
- {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
port: 3000
replicas: 2
resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: "0.25"}}
volumes:
- {name: cache, emptyDir: {}}
volumeMounts:
- {name: cache, mountPath: /cache}
restartedAt: "2026-05-06T09:08:09+02:00"
podTemplate:
  metadata: {creationTimestamp: null, annotations: {example.com/empty: ""}}
  spec:
    affinity: {}
    volumes:
    - {name: shared, emptyDir: {sizeLimit: 1024Mi}}
    containers:
    - name: sidecar
      image: registry.example.com/sidecar:1
      env:
      - {name: EMPTY, value: ""}
      - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      ports: [{containerPort: 9090}]
      resources: {limits: {cpu: 1000m, memory: 1024Mi}}
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
proxy:
  replicas: 2
  port: 8443
  service: {type: NodePort, labels: {example.com/expose: "true"}}
  resources: {limits: {memory: 1024Mi}}
  podTemplate:
    spec:
      containers:
      - {name: proxy, env: [{name: HTTPS_PROXY, value: ""}]}
`

// server is an MCPServer as a user makes it, with more of its spec.
func (d *fixture) server(name, more string) *v1alpha1.MCPServer {
	d.Helper()
	d.Apply("user", kit.Server(name, "registry.example.com/echo:1", more))
	return read(d, &v1alpha1.MCPServer{}, name)
}

// statement is one intent of the operator or of a runner about a server.
type statement struct {
	manager ownership.Manager
	// empty is an object of the intent's kind, to be read into.
	empty client.Object
	ac    runtime.ApplyConfiguration
	opts  []apply.Option
}

func (s statement) String() string {
	return fmt.Sprintf("%s on %T", s.manager, s.empty)
}

var options = podtemplate.Release{RunnerImage: "freehold.dev/runner:test", RunnerPullPolicy: corev1.PullIfNotPresent}

// content is what a server's pods run, as generation of the workload.
func (d *fixture) content(server *v1alpha1.MCPServer, generation int64) runconfig.RunConfig {
	d.Helper()
	rendered := workload.Render(workload.Input{Object: server}, options)
	if len(rendered.Problems) > 0 {
		d.Fatalf("the server cannot be rendered: %v", rendered.Problems)
	}
	return rendered.Claimed(generation)
}

// children are the intents that give birth to an object.
func (d *fixture) children(server *v1alpha1.MCPServer, run runconfig.RunConfig) []statement {
	d.Helper()
	owner, rendered := workload.OwnerOf(server), workload.Render(workload.Input{Object: server}, options)
	config, err := rendered.ConfigMap(run.Workload.Generation)
	d.Must(err, "building the run config")
	proxy, err := rendered.Proxy(run.Workload.Generation)
	d.Must(err, "building the proxy")
	backend, err := workload.Backend(run, workload.Slot1)
	d.Must(err, "building the backend")
	closed := server.DeepCopy()
	closed.Spec.Network = &v1alpha1.NetworkSpec{BackendIngress: v1alpha1.BackendIngressProxyOnly}
	return []statement{
		{contract.MCPServerChildren, &corev1.ServiceAccount{}, workload.ServiceAccount(owner), nil},
		{contract.RBACChildren, &rbacv1.Role{}, workload.Role(owner), nil},
		{contract.RBACChildren, &rbacv1.RoleBinding{}, workload.RoleBinding(owner), nil},
		{contract.MCPServerChildren, &corev1.ConfigMap{}, config, nil},
		{contract.MCPServerChildren, &corev1.Service{}, workload.ProxyService(owner, server.Spec.Proxy), nil},
		{contract.MCPServerChildren, &appsv1.Deployment{}, proxy, atVersion},
		{contract.RunnerBackend, &corev1.Service{}, workload.HeadlessService(run, workload.Slot1), atVersion},
		{contract.RunnerBackend, &corev1.Service{}, workload.BackendService(run, workload.Slot1), atVersion},
		{contract.RunnerBackend, &appsv1.StatefulSet{}, backend, atVersion},
		{
			contract.MCPServerChildren, &networkingv1.NetworkPolicy{},
			workload.BackendNetworkPolicy(closed, podtemplate.Release{}), nil,
		},
	}
}

var atVersion = []apply.Option{apply.AtVersion}

// statements are all intents about a server, in an order in which they can be
// written first. Together they use every grant about a server.
func (d *fixture) statements(server *v1alpha1.MCPServer) []statement {
	d.Helper()
	run := d.content(server, 1)
	main := v1alpha1ac.MCPServer(server.Name, server.Namespace)
	status := func(s *v1alpha1ac.MCPServerStatusApplyConfiguration) runtime.ApplyConfiguration {
		return v1alpha1ac.MCPServer(server.Name, server.Namespace).WithStatus(s)
	}
	finding := conditions.False(v1alpha1.ReasonStarting, "")
	condition := func(t string) *metav1ac.ConditionApplyConfiguration {
		return conditions.Stamp(nil, t, finding, server.Generation, server.CreationTimestamp.Time)
	}
	scale := appsv1ac.StatefulSet(workload.BackendName(server.Name), server.Namespace).
		WithSpec(appsv1ac.StatefulSetSpec().WithReplicas(*server.Spec.Replicas))
	all := []statement{
		{contract.MCPServerFinalizer, &v1alpha1.MCPServer{}, main.WithFinalizers(contract.Finalizer), nil},
		{contract.MCPServerWorkload, &v1alpha1.MCPServer{}, status(v1alpha1ac.MCPServerStatus().
			WithWorkload(v1alpha1ac.WorkloadStatus().WithGeneration(1).WithHash(run.Workload.Hash))), atVersion},
	}
	all = append(all, d.children(server, run)...)
	return append(all,
		statement{contract.MCPServerScale, &appsv1.StatefulSet{}, scale, nil},
		statement{contract.MCPServerConditions, &v1alpha1.MCPServer{}, status(v1alpha1ac.MCPServerStatus().
			WithObservedGeneration(server.Generation).
			WithConditions(condition(v1alpha1.ConditionReady), condition(v1alpha1.ConditionAccepted))), nil},
		statement{contract.MCPServerAddress, &v1alpha1.MCPServer{}, status(v1alpha1ac.MCPServerStatus().
			WithURL(workload.URL(workload.OwnerOf(server), server.Spec.Proxy, server.Spec.Path)).WithReplicas(2).
			WithReadyReplicas(0).WithSelector("a=b")), nil},
		statement{contract.MCPServerPlan, &v1alpha1.MCPServer{}, status(v1alpha1ac.MCPServerStatus().
			WithActive(v1alpha1ac.ActiveBackend().WithSlot(1).WithHash(run.Rendering.Backend).WithGeneration(1).
				WithPort(run.Backend.PodPort()).WithPath(run.Backend.Path).WithTransport(server.Spec.Transport).
				WithSince(server.CreationTimestamp))), atVersion},
		statement{contract.RunnerReport, &v1alpha1.MCPServer{}, status(v1alpha1ac.MCPServerStatus().
			WithRuntime(v1alpha1ac.RuntimeStatus().WithServerUID(string(server.UID)).WithGeneration(1).
				WithServer(v1alpha1ac.ServerInfo().WithName("echo")).WithProtocolVersions("2025-11-25").WithTools(0)).
			WithConditions(condition(v1alpha1.ConditionBackendApplied))), nil},
	)
}

// named is what an apply configuration says about whom it is about.
type named interface {
	GetName() *string
	GetNamespace() *string
}

// live is the object that a statement is about, nil if there is none.
func (d *fixture) live(s statement) client.Object {
	d.Helper()
	about := s.ac.(named)
	object := s.empty.DeepCopyObject().(client.Object)
	object.SetName(*about.GetName())
	object.SetNamespace(*about.GetNamespace())
	if !d.Exists(object) {
		return nil
	}
	return object
}

// state reads what a statement is about and puts it.
func (d *fixture) state(want apply.Result, s statement) apply.Outcome {
	d.Helper()
	return d.put(want, s.manager, d.live(s), s.ac, s.opts...)
}
