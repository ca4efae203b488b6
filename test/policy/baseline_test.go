package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// examples are the pods with which Kubernetes tests the baseline Pod Security
// Standard, by file: those that it lets pass, or those that it does not.
func examples(t *testing.T, which string) map[string]*corev1.Pod {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "test", "testdata", "baseline", "v1.37",
		which, "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	pods := map[string]*corev1.Pod{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict(data, pod); err != nil {
			t.Fatal(file, err)
		}
		pods[filepath.Base(file)] = pod
	}
	return pods
}

// backendOf is the StatefulSet of a backend with the pods of an example.
func backendOf(t *testing.T, namespace string, pod *corev1.Pod) *unstructured.Unstructured {
	t.Helper()
	o := object("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: echo-backend, namespace: " + namespace + "}}")
	merge(o.Object, object(strings.ReplaceAll(owned, "$uid", "u")+"spec: {serviceName: s, selector: {matchLabels: "+
		ownLabels+"}}").Object)
	metadata := map[string]any{"labels": object(ownLabels).Object}
	if len(pod.Annotations) > 0 {
		annotations := map[string]any{}
		for key, value := range pod.Annotations {
			annotations[key] = value
		}
		metadata["annotations"] = annotations
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	if err != nil {
		t.Fatal(err)
	}
	merge(o.Object, map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": metadata, "spec": spec}}})
	return o
}

// TestPodsStayWithinBaseline holds the policy to what Kubernetes itself calls baseline.
func TestPodsStayWithinBaseline(t *testing.T) {
	env := kit.NewEnv(t, plane)
	runner := as(t, env.Namespace, "echo-runner")
	for which, passes := range map[string]bool{"pass": true, "fail": false} {
		for file, pod := range examples(t, which) {
			t.Run(which+"/"+file, func(t *testing.T) {
				err := runner.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(backendOf(t, env.Namespace, pod)),
					client.FieldOwner(contract.RunnerBackend), client.ForceOwnership, client.DryRunAll)
				if passes && err != nil {
					t.Error("the policy refuses it: ", err)
				}
				// That one the API server refuses by itself.
				if strings.HasPrefix(file, "procmount") && !passes {
					refused(t, err, "`hostUsers` must be false")
				} else if !passes {
					refused(t, err, "keeps the pods of a StatefulSet within the baseline Pod Security Standard, and with this "+
						"request ", ": leave that out")
				}
			})
		}
	}
}

// TestAStolenTokenOpensNoNode is an attack with a runner's identity. What
// somebody else has opened before does not stop the runner.
func TestAStolenTokenOpensNoNode(t *testing.T) {
	s := kit.NewEnv(t, plane)
	runner, m := as(t, s.Namespace, "echo-runner"), string(contract.RunnerBackend)
	head := strings.ReplaceAll(owned, "$uid", makeOwners(s)[contract.MCPServer.Kind])
	send := func(spec string) error {
		intent := s.Intent("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: echo-backend}}")
		merge(intent.Object, object(head+"spec: {serviceName: s, selector: {matchLabels: "+ownLabels+
			"}, template: {metadata: {labels: "+ownLabels+"}, spec: "+spec+"}}").Object)
		return applied(t.Context(), runner, m, "", intent, true)
	}
	attacks := map[string]string{
		"server is privileged":                         `{containers: [{name: server, image: i, securityContext: {privileged: true}}]}`,
		"first is privileged":                          `{initContainers: [{name: first, image: i, securityContext: {privileged: true}}], containers: [{name: server, image: i}]}`,
		"server adds the capabilities SYS_ADMIN":       `{containers: [{name: server, image: i, securityContext: {capabilities: {add: [SYS_ADMIN, CHOWN]}}}]}`,
		"volume root is / of the node":                 `{containers: [{name: server, image: i}], volumes: [{name: root, hostPath: {path: /}}]}`,
		"the pod has hostNetwork, the pod has hostPID": `{hostNetwork: true, hostPID: true, containers: [{name: server, image: i}]}`,
		"the pod has no seccomp profile":               `{securityContext: {seccompProfile: {type: Unconfined}}, containers: [{name: server, image: i}]}`,
		"server has a probe or hook of another host":   `{containers: [{name: server, image: i, livenessProbe: {tcpSocket: {port: 80, host: 127.0.0.1}}}]}`,
	}
	for says, spec := range attacks {
		refused(t, send(spec), "field manager "+m+" keeps the pods of a StatefulSet within the baseline", says)
	}
	s.Must(send(`{containers: [{name: server, image: i}]}`), "making the backend")
	s.Force("sre", "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: echo-backend}, spec: {template: {spec: "+
		"{containers: [{name: debug, image: i, securityContext: {privileged: true}}]}}}}")
	s.Must(send(`{containers: [{name: server, image: j}]}`),
		"changing the backend beside a foreign sidecar that is privileged")
	for says, spec := range attacks {
		refused(t, send(spec), says)
	}
	// What stood open before, stays open; docs/policies.md says so.
	s.Must(send(`{containers: [{name: server, image: j}, {name: debug, image: theirs}]}`),
		"taking the foreign sidecar's image")
	proxy := s.Intent("{apiVersion: apps/v1, kind: Deployment, metadata: {name: echo-proxy}, spec: {selector: " +
		"{matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {hostPID: true, containers: [{name: c, image: " +
		"i}]}}}}")
	refused(t, applied(t.Context(), controller(t), string(contract.MCPServerChildren), "", proxy, true),
		"freehold-mcpserver belongs to Freehold, which writes no Deployment without the label "+
			"app.kubernetes.io/managed-by=freehold")
	merge(proxy.Object, object(numbered).Object)
	refused(t, applied(t.Context(), controller(t), string(contract.MCPServerChildren), "", proxy, true),
		"keeps the pods of a Deployment within the baseline", "the pod has hostPID")
}

// TestCostOfManyContainers holds that judging the pods of a backend with 50 containers, all of them beyond baseline,
// leaves three quarters of what the API server lets a policy cost.
func TestCostOfManyContainers(t *testing.T) {
	statefulSet := policyOf(t, "managers-statefulsets.yaml")
	pods := func(n int, securityContext string) *unstructured.Unstructured {
		containers := strings.Repeat(`{name: a, image: i, securityContext: `+securityContext+
			`, readinessProbe: {tcpSocket: {port: 1}}, ports: [{containerPort: 1}]},`, n)
		return object(
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: echo-backend, namespace: team}, spec: {template: {spec: {containers: [` + containers + `]}}}}`)
	}
	const confined, open = `{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`,
		`{privileged: true, procMount: Unmasked, capabilities: {add: [NET_ADMIN, SYS_ADMIN]}}`
	for name, tc := range map[string]struct{ was, is *unstructured.Unstructured }{
		"one container":           {pods(1, confined), pods(1, confined)},
		"ten containers":          {pods(10, confined), pods(10, confined)},
		"50 containers that open": {pods(50, confined), pods(50, open)},
	} {
		t.Run(name, func(t *testing.T) {
			cost := statefulSet.cost(t, tc.was, tc.is, string(contract.RunnerBackend), "system:serviceaccount:team:echo-runner")
			t.Logf("with %s the policy costs %d", name, cost)
			if cost <= 0 || cost > celconfig.RuntimeCELCostBudget/4 {
				t.Errorf("it costs %d of %d", cost, celconfig.RuntimeCELCostBudget)
			}
		})
	}
}
