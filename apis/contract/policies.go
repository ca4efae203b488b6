package contract

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/ownership/admission"
)

// Policies are the settings of the contract's admission policies. A chart that is installed elsewhere replaces the
// namespace.
func Policies() admission.Options {
	return admission.Options{
		Product: "Freehold", Namespace: "freehold-system", Page: "docs/ownership.md",
		Label:  admission.Label{Key: "app.kubernetes.io/managed-by", Value: "freehold"},
		Others: labelPolicies(),
		Rules: map[schema.GroupKind][]admission.Rule{
			Deployment.GroupKind():  {generation(), labels(inTemplate, byOperator(), "")},
			StatefulSet.GroupKind(): {generation(), labels(inTemplate, byRunner, ""), backendSet()},
			Service.GroupKind():     {generation(), backendService()},
			ConfigMap.GroupKind():   {generation()},
			MCPServer.GroupKind():   {runtimeServer()}, MCPRemoteProxy.GroupKind(): {runtimeServer()},
		},
	}
}

// ObjectDefault is a placeholder in the policies, which the chart replaces by the keys of its objectDefaults.
const ObjectDefault = "freehold.dev/object-defaults"

// Narrowed is the contract as policies enforce it: they know the keys of the additional labels and annotations of
// objects. A runner's token is in a pod, and its thief must not state keys that make another controller act, as one
// of DNS. The proxy's Service has those of spec.proxy.service, which are anybody's.
func Narrowed() ownership.Contract {
	c := Freehold()
	for i := range c.Grants {
		g := &c.Grants[i]
		if g.Object == Service && g.Manager != RunnerBackend {
			continue
		}
		g.Fields = slices.Clone(g.Fields)
		for j, field := range g.Fields {
			if of, all := strings.CutSuffix(field.String(), "[*]"); all && of != "metadata.ownerReferences" {
				g.Fields[j] = ownership.MustPath(fmt.Sprintf("%s[%q]", of, ObjectDefault))
			}
		}
	}
	return c
}

// generation: the workload generation of an object of ours never decreases, whoever writes: otherwise an older runner
// could replace newer content. Pods are exempt, because they die with their owner. An invalid number does not block a
// valid one. The one way back is an annotation with the target number: docs/policies.md.
func generation() admission.Rule {
	const (
		before = "oldObject.metadata.?annotations[?'freehold.dev/workload-generation'].orValue('')"
		now    = "object.metadata.?annotations[?'freehold.dev/workload-generation'].orValue('')"
		number = ".matches('^[0-9]{1,18}$')"
		ours   = ".metadata.?labels[?'app.kubernetes.io/managed-by'].orValue('') == 'freehold'"
		// An old number that is invalid, or of an object that was not ours, binds nobody.
		numbered = "oldObject != null && oldObject" + ours + " && " + before + number
	)
	return admission.Rule{
		Broken: numbered + " &&\n(!(object" + ours + ") || !" + now + number + " || int(" + now + ") < int(" + before + "))",
		Variables: []admissionregistrationv1.Variable{
			{Name: "numbered", Expression: numbered},
			{Name: "numberBefore", Expression: "oldObject == null ? '' : " + before},
			{Name: "number", Expression: now},
			{Name: "isNumber", Expression: "variables.number" + number},
			{
				Name:       "brokenGlass",
				Expression: "object.metadata.?annotations[?'freehold.dev/break-glass-generation'].orValue('')",
			},
		},
		Validations: []admissionregistrationv1.Validation{
			{
				Expression: "!variables.numbered || variables.isNumber",
				MessageExpression: `'annotation freehold.dev/workload-generation is ' + variables.numberBefore + ' and may not ' +
(variables.number == '' ? 'disappear' : 'become "' + variables.number + '", which is no number') +
': leave it as it is. To start over, delete the object; Freehold makes it again.'`,
			},
			{
				Expression: "!variables.numbered || !variables.isNumber || int(variables.number) >= int(variables.numberBefore) " +
					"|| variables.brokenGlass == variables.number",
				MessageExpression: `'annotation freehold.dev/workload-generation is ' + variables.numberBefore + ' and may not go back to ' +
variables.number + ': leave it as it is. To run earlier content, write that content into the MCPServer, ' +
'which raises the number. To start over, delete the object; Freehold makes it again. In an emergency, annotate it with ' +
'freehold.dev/break-glass-generation: "' + variables.number + '" as docs/policies.md describes.'`,
			},
			{
				Expression: "!variables.numbered || object" + ours,
				Message: "label app.kubernetes.io/managed-by=freehold may not be removed from an object that carries a workload " +
					"generation: leave it as it is. To make the object your own, make a copy under another name.",
			},
		},
	}
}

// runtimeServer: a report belongs to the server that it is written to. A server that was deleted and created again
// under its name may still have a proxy of the earlier one, whose report has the uid that the runner was started for.
// What is reported already is left alone.
func runtimeServer() admission.Rule {
	const broken = "oldObject != null && object.?status.?runtime.?serverUID.orValue('') != '' &&\n" +
		"object.?status.?runtime.?serverUID != oldObject.?status.?runtime.?serverUID && object.status.runtime.serverUID != " +
		"object.metadata.uid"
	return admission.Rule{
		Broken: broken,
		Validations: []admissionregistrationv1.Validation{{
			Expression: "!(" + broken + ")",
			MessageExpression: `'status.runtime.serverUID may not become ' + object.?status.?runtime.?serverUID.orValue('') + ', for the uid of this server is ' +
object.metadata.uid + ': the report is of another server of this name. Read the server again, and report with its uid.'`,
		}},
	}
}
