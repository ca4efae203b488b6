package policy

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// TestOthersDoNotNotice holds that a ServiceAccount which happens to be called
// as a runner is writes as it likes, and so does everybody under other names.
func TestOthersDoNotNotice(t *testing.T) {
	s := kit.NewEnv(t, plane)
	for i, account := range []string{"gitlab-runner", "-runner", "runner", "default"} {
		c := as(t, s.Namespace, account)
		for _, manager := range []string{"", "helm"} {
			name := fmt.Sprintf("gitlab-%d%s", i, manager)
			for _, o := range []string{
				"{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, data: {a: b}}",
				"{apiVersion: v1, kind: Service, metadata: {name: " + name + "}, spec: {ports: [{port: 80}]}}",
				"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: " + name + "}, spec: {replicas: 0, serviceName: s, " +
					pods + "}}",
			} {
				made := s.Intent(o)
				s.Must(c.Create(s.Ctx, made, client.FieldOwner(manager)), account+" creates")
				s.Must(c.Patch(s.Ctx, made, client.RawPatch(types.MergePatchType, []byte(noteB)), client.FieldOwner(manager)),
					account+" patches")
				made.SetResourceVersion("") // kube-controller-manager writes, too
				s.Must(c.Update(s.Ctx, made, client.FieldOwner(manager)), account+" updates")
			}
		}
	}
}

// TestARunnerIsOfOneServer holds that an account which is called as a runner is one at its own server's run configs
// only, not at those of a server whose name begins with its own, nor at what is called almost so.
func TestARunnerIsOfOneServer(t *testing.T) {
	s := kit.NewEnv(t, plane)
	c := as(t, s.Namespace, "echo-runner")
	for name, own := range map[string]bool{
		"echo-run-1-abc": true, "echo-run-run-1-abc": false, "echo-run-1-run-1-abc": false, "echo-run-config": false,
		"echo-runs": false,
	} {
		err := c.Create(s.Ctx, s.Intent("{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+
			", labels: {app.kubernetes.io/managed-by: freehold}}}"), client.FieldOwner("helm"))
		if own {
			refused(t, err, "belongs to Freehold")
		} else {
			s.Must(err, "making "+name)
		}
	}
}

const noteB = `{"metadata":{"annotations":{"example.com/note":"b"}}}`

// TestAnybodyMayRelease holds that what a manager of ours owns can be given up by
// whoever may write the object, and that nothing else passes for that.
func TestAnybodyMayRelease(t *testing.T) {
	s, c, children := kit.NewEnv(t, plane), controller(t), string(contract.MCPServerChildren)
	const head, ours = "{apiVersion: v1, kind: ConfigMap, metadata: {name: echo-run-1-abc%s",
		", labels: {app.kubernetes.io/managed-by: freehold}"
	whole, nothing := s.Intent(fmt.Sprintf(head, ours+"}, data: {a: b}}")), s.Intent(fmt.Sprintf(head, "}}"))
	says := "is Freehold's, for its ServiceAccount freehold-mcpserver alone"
	refused(t, applied(s.Ctx, admin, children, "", s.Intent(fmt.Sprintf(head, ours+"}}")), true),
		says) // there is nothing to release
	s.Must(applied(s.Ctx, c, children, "", whole, true), "making a child")
	refused(t, applied(s.Ctx, admin, children, "",
		s.Intent(fmt.Sprintf(head, ours+", annotations: {freehold.dev/workload-hash: a}}}")), true), says)
	remove := client.RawPatch(types.MergePatchType, []byte(`{"data":null,"metadata":{"labels":{"a":"b"}}}`))
	refused(t, admin.Patch(s.Ctx, whole.DeepCopy(), remove, client.FieldOwner(children)), says)
	s.Must(applied(s.Ctx, admin, children, "", nothing, true), "releasing")
	s.OwnsNothing(whole, children)
}

// TestReportsNameTheServer holds that a report of another server of the name is refused to everybody.
func TestReportsNameTheServer(t *testing.T) {
	s := kit.NewEnv(t, plane)
	server := s.Apply("kubectl", kit.Server("echo", "i", ""))
	s.Must(applied(s.Ctx, controller(t), string(contract.MCPServerWorkload), "status",
		s.Intent(kit.Server("echo", "i", "")+"status: {workload: {generation: 1, hash: a}}"), true), "claiming")
	report := func(c client.Client, manager, uid string) error {
		o := s.Intent("{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: echo}, status: {runtime: " +
			"{generation: 1, serverUID: " + uid + "}}}")
		return applied(s.Ctx, c, manager, "status", o, true)
	}
	says := []string{
		"status.runtime.serverUID may not become another", "is " + string(server.GetUID()),
		"report with its uid",
	}
	runner := as(t, s.Namespace, "echo-runner")
	refused(t, report(runner, string(contract.RunnerReport), "another"), says...)
	refused(t, report(admin, "kubectl", "another"), says...)
	s.Must(report(runner, string(contract.RunnerReport), string(server.GetUID())), "reporting")
	refused(t, report(runner, string(contract.RunnerReport), "another"), says...)
	merge := `{"status":{"runtime":{"serverUID":"another"}}}`
	refused(t, admin.Status().Patch(s.Ctx, server, client.RawPatch(types.MergePatchType, []byte(merge))), says...)
	s.Must(admin.Status().Patch(s.Ctx, server,
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"url":"http://a"}}`))), "writing elsewhere in the status")
}

// TestReportsAreBounded holds what a runner's token writes into a status to what fits one.
func TestReportsAreBounded(t *testing.T) {
	s := kit.NewEnv(t, plane)
	server := s.Apply("kubectl", kit.Server("echo", "i", ""))
	s.Must(applied(s.Ctx, controller(t), string(contract.MCPServerWorkload), "status",
		s.Intent(kit.Server("echo", "i", "")+"status: {workload: {generation: 1, hash: a}}"), true), "claiming")
	var versions []string
	for i := range 33 {
		versions = append(versions, fmt.Sprint("v", i))
	}
	for more, says := range map[string]string{
		"tools: -1":     "status.runtime.tools",
		"prompts: -1":   "status.runtime.prompts",
		"resources: -1": "status.runtime.resources",
		"protocolVersions: [" + strings.Repeat("a", 65) + "]":      "status.runtime.protocolVersions",
		"protocolVersions: [" + strings.Join(versions, ", ") + "]": "status.runtime.protocolVersions",
		"server: {name: " + strings.Repeat("a", 1025) + "}":        "status.runtime.server.name",
	} {
		o := s.Intent("{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: echo}, status: {runtime: " +
			"{generation: 1, serverUID: " + string(server.GetUID()) + ", " + more + "}}}")
		refused(t, applied(s.Ctx, as(t, s.Namespace, "echo-runner"), string(contract.RunnerReport), "status", o, true), says)
	}
}

// TestGenerationsOfAServerStay holds that the claimed number falls for nobody,
// with or without the annotation that lets a child's number fall.
func TestGenerationsOfAServerStay(t *testing.T) {
	s := kit.NewEnv(t, plane)
	server := s.Apply("kubectl", kit.Server("echo", "i", ""))
	claim := func(c client.Client, manager string, n int) error {
		return applied(s.Ctx, c, manager, "status",
			s.Intent(fmt.Sprintf("%sstatus: {workload: {generation: %d, hash: a}}", kit.Server("echo", "i", ""), n)), true)
	}
	s.Must(claim(controller(t), string(contract.MCPServerWorkload), 5), "claiming")
	const says = "status.workload may not disappear and its generation may not fall: leave it as it is, and write other " +
		"content into spec"
	refused(t, claim(controller(t), string(contract.MCPServerWorkload), 4), says)
	s.Patch(server, "kubectl", `{"metadata":{"annotations":{"`+breakGlass+`":"4"}}}`)
	refused(t, claim(admin, "kubectl", 4), says)
	s.Must(claim(controller(t), string(contract.MCPServerWorkload), 6), "claiming the next")
}

// TestPoliciesAreWellTyped holds that kube-controller-manager, which checks
// each expression against the schemas of what it matches, has no warning.
func TestPoliciesAreWellTyped(t *testing.T) {
	s := kit.NewEnv(t, plane)
	var list admissionregistrationv1.ValidatingAdmissionPolicyList
	s.AwaitAll(&list, "every policy is checked", func() error {
		for i := range list.Items {
			if p := &list.Items[i]; p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil {
				return fmt.Errorf("%s is not", p.Name)
			}
		}
		return nil
	}, client.InNamespace(""))
	if len(list.Items) < 10 {
		t.Errorf("there are %d policies", len(list.Items))
	}
	for _, p := range list.Items {
		for _, w := range p.Status.TypeChecking.ExpressionWarnings {
			t.Errorf("%s: %s: %s", p.Name, w.FieldRef, w.Warning)
		}
	}
}
