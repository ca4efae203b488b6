package apply

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
)

// What the writer costs where nothing is to be sent, which is nearly always. The case is a server's proxy with all that
// a user can ask of it, on which four managers have written: the worst of a pass.

// proxyIntent is the Deployment of a server, as its golden has it.
func proxyIntent(tb testing.TB) *appsv1ac.DeploymentApplyConfiguration {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "workload", "testdata", "full", "proxy.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	proxy := &appsv1ac.DeploymentApplyConfiguration{}
	if err := yaml.UnmarshalStrict(text, proxy); err != nil {
		tb.Fatal(err)
	}
	return proxy
}

// proxyLive is that Deployment as a cache hands it out: with the defaults of the API server, the status of
// kube-controller-manager, the labels of a GitOps tool and the sidecar of a policy.
func proxyLive(tb testing.TB, proxy runtime.ApplyConfiguration) *appsv1.Deployment {
	tb.Helper()
	text, err := json.Marshal(proxy)
	if err != nil {
		tb.Fatal(err)
	}
	const head = `apiVersion: apps/v1, kind: Deployment, metadata: {name: search-proxy, namespace: team-b`
	server := newAPIServer(tb, contract.Deployment.GroupVersionKind)
	server.apply(string(contract.MCPServerChildren), string(text))
	server.apply("argocd-controller",
		`{`+head+`, labels: {team: b, cost-center: "7"}, annotations: {argocd.argoproj.io/tracking-id: x}}}`)
	server.apply("mesh", `{`+head+`}, spec: {template: {metadata: {labels: {mesh: "on"}}, spec: {containers: [
		{name: mesh, image: mesh:1, args: [sidecar], env: [{name: A, value: a}, {name: B, value: b}], ports: [{containerPort: 15001, protocol: TCP}]}]}}}}`)
	live := server.live(&appsv1.Deployment{}).(*appsv1.Deployment)
	live.ResourceVersion, live.Generation, live.CreationTimestamp = "1234", 3, metav1.Now()
	live.SetGroupVersionKind(contract.Deployment.GroupVersionKind) // as the cache does
	defaulted(live)
	reported(live)
	return live
}

// defaulted fills in what the API server does and nobody owns.
func defaulted(d *appsv1.Deployment) {
	d.Spec.ProgressDeadlineSeconds = new(int32(600))
	pod := &d.Spec.Template.Spec
	pod.RestartPolicy, pod.DNSPolicy, pod.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst,
		corev1.DefaultSchedulerName
	pod.DeprecatedServiceAccount = pod.ServiceAccountName
	pod.Volumes[0].DownwardAPI.DefaultMode = new(int32(0o644))
	for i := range pod.Containers {
		c := &pod.Containers[i]
		c.TerminationMessagePath = corev1.TerminationMessagePathDefault
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if probe != nil {
				probe.SuccessThreshold, probe.FailureThreshold = 1, max(3, probe.FailureThreshold)
				probe.TimeoutSeconds, probe.PeriodSeconds = max(1, probe.TimeoutSeconds), max(1, probe.PeriodSeconds)
				probe.HTTPGet.Scheme = corev1.URISchemeHTTP
			}
		}
	}
}

// reported adds what kube-controller-manager says, by an update of the status.
func reported(d *appsv1.Deployment) {
	d.Annotations["deployment.kubernetes.io/revision"] = "3"
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
		Conditions: []appsv1.DeploymentCondition{
			{
				Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
				Message: "Deployment has minimum availability.",
			},
			{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
				Message: "ReplicaSet has successfully progressed.",
			},
		},
	}
	now := metav1.Now()
	d.ManagedFields = append(d.ManagedFields, metav1.ManagedFieldsEntry{
		Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1", Time: &now,
		FieldsType: "FieldsV1", Subresource: "status",
		FieldsV1: metav1.NewFieldsV1(
			`{"f:metadata":{"f:annotations":{"f:deployment.kubernetes.io/revision":{}}},"f:status":{"f:availableReplicas":{},` +
				`"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}},` +
				`"k:{\"type\":\"Progressing\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}},` +
				`"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:updatedReplicas":{}}}`),
	})
}

// settledProxy is a writer of Freehold's contract, the proxy's intent, and the
// object on which it has nothing to change.
func settledProxy(tb testing.TB) (*Writer, *appsv1ac.DeploymentApplyConfiguration, *appsv1.Deployment) {
	tb.Helper()
	proxy := proxyIntent(tb)
	live := proxyLive(tb, proxy)
	if len(live.ManagedFields) != 4 {
		tb.Fatalf("%d managers have written", len(live.ManagedFields))
	}
	return New(nil, nil, testConverter(), contract.Freehold()).As(contract.MCPServerChildren), proxy, live
}

// The time is for benchmarks to tell; what it leaves to the garbage collector is counted here.
func TestTheCheckOfAnUnchangedIntentIsCheap(t *testing.T) {
	w, proxy, live := settledProxy(t)
	in, err := w.applier.converter.freeze(proxy)
	if err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(10, func() {
		if same, err := w.unchanged(live, in, "", memoryKey{}); err != nil || !same {
			t.Fatal(same, err)
		}
	})
	if allocations > 200 {
		t.Errorf("it takes %.0f allocations, want at most 200", allocations)
	}
}

// BenchmarkUnchanged is the check of a frozen intent that has to find the same
// from the live object alone, as after a restart.
func BenchmarkUnchanged(b *testing.B) {
	w, proxy, live := settledProxy(b)
	in, err := w.applier.converter.freeze(proxy)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if same, err := w.unchanged(live, in, "", memoryKey{}); err != nil || !same {
			b.Fatal(same, err)
		}
	}
}

// BenchmarkFreeze makes an intent of an apply configuration.
func BenchmarkFreeze(b *testing.B) {
	w, proxy, _ := settledProxy(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.applier.converter.freeze(proxy); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutside is the check of the contract.
func BenchmarkOutside(b *testing.B) {
	w, proxy, _ := settledProxy(b)
	in, err := w.applier.converter.freeze(proxy)
	if err != nil {
		b.Fatal(err)
	}
	grant, err := w.grant(in)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if outside := grant.Outside(in.fields); len(outside) > 0 {
			b.Fatal(outside)
		}
	}
}

// BenchmarkApply is all of it, by a process that knows nothing yet.
func BenchmarkApply(b *testing.B) {
	w, proxy, live := settledProxy(b)
	b.ReportAllocs()
	for b.Loop() {
		if done, err := w.Apply(b.Context(), live, proxy); err != nil || done.Result != Unchanged {
			b.Fatal(done, err)
		}
	}
}
