package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// The crowded Deployment has 50 managers, and 200 fields of our manager that
// the contract does not grant: the most that a policy has to compare.
const (
	crowdManagers = 50
	crowdFields   = 200
)

func crowded(fields int) *unstructured.Unstructured {
	var annotations strings.Builder
	for i := range fields {
		fmt.Fprintf(&annotations, `, example.com/a-%d: a`, i)
	}
	o := object(fmt.Sprintf(oldProxy, annotations.String()))
	o.SetName("crowd-proxy")
	return o
}

// crowd leaves the crowded Deployment, before there are policies.
func crowd(ctx context.Context) error {
	if err := applied(ctx, admin, string(contract.MCPServerChildren), "", crowded(crowdFields), true); err != nil {
		return err
	}
	for i := range crowdManagers - 1 {
		o := object(
			fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: crowd-proxy, namespace: older, labels: {
  m%[1]d.example.com/a: a, m%[1]d.example.com/b: b, m%[1]d.example.com/c: c, m%[1]d.example.com/d: d}}}`, i))
		if err := applied(ctx, admin, fmt.Sprintf("manager-%d", i), "", o, false); err != nil {
			return err
		}
	}
	return nil
}

// TestACrowdedObjectIsWritten holds that the API server works the policies out
// on such an object within its limits, whatever the answer is.
func TestACrowdedObjectIsWritten(t *testing.T) {
	c, m := controller(t), string(contract.MCPServerChildren)
	live := crowded(0)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
		t.Fatal(err)
	}
	if got := len(live.GetManagedFields()); got < crowdManagers {
		t.Fatalf("the object has %d managers", got)
	}
	change := crowded(crowdFields)
	if err := unstructured.SetNestedField(change.Object, int64(7), "spec", "revisionHistoryLimit"); err != nil {
		t.Fatal(err)
	}
	if err := applied(t.Context(), c, m, "", change, true); err != nil {
		t.Error("with 200 fields of an older contract: ", err)
	}
	err := applied(t.Context(), c, m, "", crowded(crowdFields+3), true)
	refused(t, err, ".metadata.annotations.example.com/a-200", ".metadata.annotations.example.com/a-201",
		".metadata.annotations.example.com/a-202")
	if err := applied(t.Context(), c, m, "", crowded(0), true); err != nil {
		t.Error("dropping them: ", err)
	}
	refused(t, applied(t.Context(), c, m, "", crowded(crowdFields), true),
		"adds 200 fields, among them .metadata.annotations.example.com/a-")
}

// TestCostOfTheCrowd holds that judging the crowded object leaves three quarters of what the API server lets a policy
// cost: https://kubernetes.io/docs/reference/using-api/cel/#resource-constraints
func TestCostOfTheCrowd(t *testing.T) {
	old := crowded(crowdFields)
	deployment := policyOf(t, "managers-deployments.yaml")
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "Apply", APIVersion: "apps/v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	entries := func(fields int) []metav1.ManagedFieldsEntry {
		var ours strings.Builder
		for i := range fields {
			fmt.Fprintf(&ours, `"f:example.com/a-%d":{},`, i)
		}
		all := []metav1.ManagedFieldsEntry{entry(string(contract.MCPServerChildren), `{"f:metadata":{"f:annotations":{`+
			ours.String()+
			`"f:freehold.dev/workload-generation":{}},"f:labels":{"f:freehold.dev/server":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:spec":{}}}}`)}
		for i := range crowdManagers - 1 {
			all = append(all, entry(fmt.Sprintf("manager-%d", i),
				`{"f:metadata":{"f:labels":{"f:a":{},"f:b":{},"f:c":{},"f:d":{}}}}`))
		}
		return all
	}
	for name, tc := range map[string]struct{ before, now int }{
		"200 fields that stood there": {crowdFields, crowdFields},
		"200 fields that are new":     {0, crowdFields},
		"none":                        {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := old.DeepCopy(), old.DeepCopy()
			was.SetManagedFields(entries(tc.before))
			is.SetManagedFields(entries(tc.now))
			budget := int64(celconfig.RuntimeCELCostBudget)
			cost := deployment.cost(t, was, is, string(contract.MCPServerChildren),
				"system:serviceaccount:freehold-system:freehold-mcpserver")
			t.Logf("with %d managers and %s the policy costs %d of %d (%.1f %%)", crowdManagers, name, cost, budget,
				100*float64(cost)/float64(budget))
			if cost <= 0 || cost > budget/4 {
				t.Errorf("it costs %d of %d", cost, budget)
			}
		})
	}
}

// compiled is a policy as the API server compiles it.
type compiled struct {
	conditions, validations, messages plugincel.ConditionEvaluator
}

func policyOf(t *testing.T, file string) compiled {
	t.Helper()
	root, err := kit.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "config", "policy", file))
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ := strings.Cut(string(data), "\n---\n")
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := yaml.UnmarshalStrict([]byte(document), policy); err != nil {
		t.Fatal(err)
	}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	var conditions, validations, messages []plugincel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	for _, v := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression})
		if v.MessageExpression == "" {
			messages = append(messages, nil)
			continue
		}
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	return compiled{
		conditions:  compiler.CompileCondition(conditions, options, environment.StoredExpressions),
		validations: compiler.CompileCondition(validations, options, environment.StoredExpressions),
		messages:    compiler.CompileCondition(messages, options, environment.StoredExpressions),
	}
}

// evaluate is what an evaluator says to an update, and what is left of the budget.
func evaluate(t *testing.T, by plugincel.ConditionEvaluator, was, is *unstructured.Unstructured, manager, asker string,
	left int64,
) ([]plugincel.EvaluationResult, int64) {
	t.Helper()
	kind := is.GroupVersionKind()
	resource := kind.GroupVersion().WithResource(ownership.Object{GroupVersionKind: kind}.Resource())
	attributes := admission.NewAttributesRecord(is, was, kind, is.GetNamespace(), is.GetName(), resource, "",
		admission.Update,
		&metav1.UpdateOptions{FieldManager: manager}, false, &user.DefaultInfo{Name: asker})
	versioned := &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: kind,
		VersionedObject: admission.NewLazyObject(is), VersionedOldObject: admission.NewLazyObject(was),
	}
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(resource),
		metav1.GroupVersionKind(kind))
	results, remaining, err := by.ForInput(t.Context(), versioned, request,
		plugincel.OptionalVariableBindings{Authorizer: authorizerfactory.NewAlwaysDenyAuthorizer()}, &corev1.Namespace{},
		left)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Error != nil {
			t.Error(r.Error)
		}
	}
	return results, remaining
}

// cost is what validations and messages take, which share one budget.
func (c compiled) cost(t *testing.T, was, is *unstructured.Unstructured, manager, asker string) int64 {
	t.Helper()
	left := int64(celconfig.RuntimeCELCostBudget)
	for _, evaluator := range []plugincel.ConditionEvaluator{c.conditions, c.validations, c.messages} {
		_, left = evaluate(t, evaluator, was, is, manager, asker, left)
	}
	return celconfig.RuntimeCELCostBudget - left
}

// TestWhatFreeholdMakesEndsInTheCondition holds that nothing but the match condition is
// worked out for what Freehold itself makes, and in few steps.
func TestWhatFreeholdMakesEndsInTheCondition(t *testing.T) {
	const controller, most = "system:serviceaccount:freehold-system:freehold-mcpserver", 800
	for file, tc := range map[string]struct{ policy, manager, asker string }{
		"minimal/proxy": {"managers-deployments.yaml", string(contract.MCPServerChildren), controller},
		"minimal/backend": {
			"managers-statefulsets.yaml", string(contract.RunnerBackend),
			"system:serviceaccount:team:%s-runner",
		},
		"stdio/backend": {
			"managers-statefulsets.yaml", string(contract.RunnerBackend),
			"system:serviceaccount:team:%s-runner",
		},
	} {
		root, err := kit.Root()
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(root, "controllers", "workload", "testdata", file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		is := object(string(data))
		is.SetNamespace("team")
		is.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: tc.manager, Operation: "Apply",
			FieldsV1: fieldsOf(t, is.Object, "metadata", "spec"),
		}})
		asker := strings.Replace(tc.asker, "%s", is.GetLabels()["freehold.dev/server"], 1)
		conditions := policyOf(t, tc.policy).conditions
		judge := func() (any, int64) {
			results, left := evaluate(t, conditions, is.DeepCopy(), is, tc.manager, asker,
				celconfig.RuntimeCELCostBudgetMatchConditions)
			return results[0].EvalResult.Value(), celconfig.RuntimeCELCostBudgetMatchConditions - left
		}
		suspicious, cost := judge()
		t.Logf("%s costs %d", file, cost)
		if suspicious != false || cost > most {
			t.Errorf("%s: the condition says %v, and costs %d", file, suspicious, cost)
		}
		is.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["hostNetwork"] = true
		if suspicious, _ := judge(); suspicious != true {
			t.Errorf("%s: in the node's network the condition says %v", file, suspicious)
		}
	}
}

// TestWhatTheLabelsCostOthers holds that the condition on labels of pods is false, in few
// steps, for what has none of them, and for what kubelet writes of a pod that has them.
func TestWhatTheLabelsCostOthers(t *testing.T) {
	root, err := kit.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "controllers", "workload", "testdata", "minimal", "proxy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := object(string(data)).Object
	template := proxy["spec"].(map[string]any)["template"].(map[string]any)
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]}
	foreign := func(kind string) map[string]any {
		o := (&unstructured.Unstructured{Object: proxy}).DeepCopy()
		o.SetKind(kind)
		unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "labels")
		return o.Object
	}
	for file, tc := range map[string]struct {
		object map[string]any
		most   int64
	}{
		"managers-replicasets.yaml": {foreign("ReplicaSet"), 30},
		"managers-templates.yaml":   {foreign("Deployment"), 30},
		"managers-pods.yaml":        {pod, 500},
	} {
		is := &unstructured.Unstructured{Object: tc.object}
		results, left := evaluate(t, policyOf(t, file).conditions, is.DeepCopy(), is, "", "system:node:a",
			celconfig.RuntimeCELCostBudgetMatchConditions)
		cost := celconfig.RuntimeCELCostBudgetMatchConditions - left
		t.Logf("%s costs %d", file, cost)
		if suspicious := results[0].EvalResult.Value(); suspicious != false || cost > tc.most {
			t.Errorf("%s: the condition says %v, and costs %d", file, suspicious, cost)
		}
	}
}

// fieldsOf are the fields of an object down to the second level, and of its labels and annotations.
func fieldsOf(t *testing.T, o map[string]any, levels ...string) *metav1.FieldsV1 {
	t.Helper()
	fields := map[string]any{}
	for _, level := range levels {
		below := map[string]any{}
		for key, value := range o[level].(map[string]any) {
			switch key {
			case "name", "namespace":
			case "labels", "annotations":
				keys := map[string]any{}
				for k := range value.(map[string]any) {
					keys["f:"+k] = map[string]any{}
				}
				below["f:"+key] = keys
			default:
				below["f:"+key] = map[string]any{}
			}
		}
		fields["f:"+level] = below
	}
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return metav1.NewFieldsV1(string(data))
}
