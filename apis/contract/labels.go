package contract

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/ownership/admission"
)

// Services and NetworkPolicies of a server select its pods by two labels. These rules keep everybody but Freehold
// from giving the labels to other pods, which would get the calls and the tokens of that server's callers (ADR 0050).

const (
	asks = "request.?userInfo.?username.orValue('')"

	// Where an object has the labels of its pods.
	inTemplate = ".?spec.?template.?metadata.?labels"
	inPod      = ".?metadata.?labels"

	// actsAsOurs: the user may impersonate a controller of ours, and could write the labels so. That is an
	// administrator, or a tool that restores for one.
	actsAsOurs = "['system:serviceaccount:freehold-system:freehold-mcpserver'].exists(u, " +
		"authorizer.group('').resource('serviceaccounts')\n" +
		".namespace(u.split(':')[2]).name(u.split(':')[3]).check('impersonate').allowed())"

	// Kubernetes' controllers have an account each, or one name for all.
	byDeployments = asks + " in ['system:serviceaccount:kube-system:deployment-controller', " +
		"'system:kube-controller-manager']"
	byController = asks + " in ['system:serviceaccount:kube-system:replicaset-controller', " +
		"'system:serviceaccount:kube-system:statefulset-controller',\n" +
		"'system:kube-controller-manager'] &&\n" +
		"object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.apiVersion == 'apps/v1' " +
		"&& o.kind in ['ReplicaSet', 'StatefulSet'])"
	byRunner = asks + " == 'system:serviceaccount:' + request.?namespace.orValue('') + ':' + server + '-runner' &&\n" +
		"{server + '-backend': 'backend', server + '-slot2': 'backend-slot2'}[?object.metadata.name].orValue('-') ==\n" +
		"dyn(object)" +
		inTemplate + "[?'app.kubernetes.io/component'].orValue('')"

	// ofSlot are the labels of the pods of a StatefulSet or Service with this name.
	ofSlot = "{'freehold.dev/server': server, 'app.kubernetes.io/component': " +
		"object.metadata.name.startsWith(server + '-slot2') ? 'backend-slot2' : 'backend'}"
)

// byOperator: the request comes from a controller of a kind with a proxy.
func byOperator() string {
	var users []string
	for _, w := range Workloads() {
		users = append(users, "'system:serviceaccount:freehold-system:"+w.Identity+"'")
	}
	return asks + " in [" + strings.Join(users, ", ") + "]"
}

// named: server is a label of our kinds. Other authors' kinds have their own suffix.
func named() string {
	terms := []string{"!server.contains('.')"}
	for _, w := range Workloads() {
		if w.Suffix != "" {
			terms = append(terms, "server.endsWith('."+w.Suffix+"')")
		}
	}
	return "(" + strings.Join(terms, " || ") + ")"
}

// moves: the request gives pods another server or component. An update that leaves both is allowed.
func moves(in string) string {
	return "(oldObject == null || ['freehold.dev/server', 'app.kubernetes.io/component'].exists(k, dyn(object)" + in +
		"[?k] != dyn(oldObject)" + in + "[?k]))"
}

// What runs under the labels is protected where no controller repairs it as ours do a Deployment: a pod's images and
// what its runner reads, a ReplicaSet's template, and the labels by which its Deployment finds it.
const (
	ofPod = "['containers', 'initContainers'].exists(l, dyn(object).?spec[?l].orValue([]).map(c, c.?image) != " +
		"dyn(oldObject).?spec[?l].orValue([]).map(c, c.?image)) ||\n" +
		"[[dyn(object), dyn(oldObject)].map(o, o.metadata.?annotations.orValue({}))].exists(a, a.exists(m, m.exists(k, " +
		"k.startsWith('freehold.dev/') && a[0][?k] != a[1][?k])))"
	ofReplicaSet = "dyn(object).spec.template != dyn(oldObject).spec.template ||\n" +
		"['freehold.dev/server', 'app.kubernetes.io/component'].exists(k, dyn(object).metadata.?labels[?k] != " +
		"dyn(oldObject).metadata.?labels[?k]) ||\n" +
		"dyn(object).metadata.?ownerReferences.orValue([]).exists(o, " +
		"!dyn(oldObject).metadata.?ownerReferences.orValue([]).exists(b, b.uid == o.uid))"
)

// labels allows only requests for which by is true to give pods the labels of server, or to make the changes.
func labels(in, by, changes string) admission.Rule {
	moved, kept := moves(in), ""
	if changes != "" {
		moved = "(" + moved + " ||\n" + changes + ")"
		kept = "!" + moves(in) + " ?\n'this ' + request.kind.kind + ' gets the calls of ' + dyn(object)" + in +
			"['freehold.dev/server'].orValue('') + " +
			"', and only Freehold changes what it runs: change the MCPServer or MCPRemoteProxy, and leave images, template, " +
			"owners and what is labelled or annotated with freehold.dev/ here' :\n"
	}
	broken := "[dyn(object)" + in + "[?'freehold.dev/server'].orValue('')].exists(server, server != '' && " + named() +
		" &&\n" + moved + " &&\n!(" + by + "))"
	whose := "'label freehold.dev/server of a pod template"
	if in == inPod {
		whose = "'label freehold.dev/server of a pod"
	}
	return admission.Rule{
		Broken: broken,
		Validations: []admissionregistrationv1.Validation{{
			Expression: "!(" + broken + ") || " + actsAsOurs,
			MessageExpression: kept + whose + " is given by Freehold, and ' + " + asks +
				" + ' is not that: with it this ' + request.kind.kind + ' would get the calls of ' +\n" +
				"dyn(object)" + in + "['freehold.dev/server'].orValue('') + '. Leave freehold.dev/server and " +
				"app.kubernetes.io/component as they are, or choose labels of your own'",
		}},
	}
}

// ofItsServer confines a runner to its own server: a stolen token creates no pods of another server, no Service
// besides the backend's, and no pods with a runner's account. wrong lists what else the runner must not state of the
// kind, with the messages; it is checked at creation and when one of fields changes.
func ofItsServer(kind ownership.Object, fields []string, wrong ...string) admission.Rule {
	const (
		runs = "request.?options.?fieldManager.orValue('') == '" + string(RunnerBackend) +
			"' && request.?subResource.orValue('') == '' &&\n" +
			asks + ".startsWith('system:serviceaccount:' + request.?namespace.orValue('') + ':') && " + asks +
			".endsWith('-runner')"
		server = asks + ".substring(('system:serviceaccount:' + request.?namespace.orValue('') + ':').size(), " + asks +
			".size() - 7)"
		mine   = "o.apiVersion.startsWith('freehold.dev/') && o.kind == 'MCPServer' && o.name == server"
		owners = "dyn(object).metadata.?ownerReferences.orValue([])"
	)
	wrong = append([]string{
		"(oldObject == null && !" + owners + ".exists(o, o.?controller.orValue(false) && " + mine + ") ||\n" +
			owners + ".exists(o, !(" + mine +
			") && (oldObject == null || !(o in dyn(oldObject).metadata.?ownerReferences.orValue([]))))) ?\n" +
			"'an owner that is not the MCPServer ' + server : ''",
	}, wrong...)
	strays := "[" + server + "].map(server, [\n" + strings.Join(wrong, ",\n") + "\n].filter(s, s != ''))[0]"
	name, changes := "strays"+kind.Kind, []string{"oldObject == null"}
	for _, field := range append([]string{".?metadata.?ownerReferences"}, fields...) {
		changes = append(changes, "dyn(object)"+field+" != dyn(oldObject)"+field)
	}
	return admission.Rule{
		Broken:    runs + " &&\n(" + strings.Join(changes, " ||\n") + ")",
		Variables: []admissionregistrationv1.Variable{{Name: name, Expression: runs + " ?\n" + strays + " : []"}},
		Validations: []admissionregistrationv1.Validation{{
			Expression: "variables." + name + ".size() == 0",
			MessageExpression: "'a runner writes only what is of its own server, and ' + " + asks + " + ' gives this " +
				kind.Kind +
				" ' + variables." + name + ".join(', ') + ': leave that out'",
		}},
	}
}

// backendSet are the StatefulSets of runners, and backendService their Services.
func backendSet() admission.Rule {
	return ofItsServer(StatefulSet, []string{inTemplate, ".?spec.?template.?spec.?serviceAccountName"},
		moves(inTemplate)+" && ["+ofSlot+"].exists(own, own.exists(k, dyn(object)"+inTemplate+
			"[?k].orValue('') != own[k])) ? 'pods without the labels of this backend' : ''",
		"oldObject == null && dyn(object).?spec.?selector.orValue({}) != {'matchLabels': "+ofSlot+
			"} ? 'the selector of another backend' : ''",
		"[dyn(object).?spec.?template.?spec.?serviceAccountName.orValue('')].exists(a, a.endsWith('-runner') &&\n"+
			"(oldObject == null || dyn(oldObject).?spec.?template.?spec.?serviceAccountName.orValue('') != a)) ?\n"+
			"'an account of a runner, ' + dyn(object).spec.template.spec.serviceAccountName : ''",
	)
}

func backendService() admission.Rule {
	return ofItsServer(Service, []string{".?spec.?selector", ".?spec.?type"},
		"!(dyn(object).?spec.?selector.orValue({}) in [{}, "+ofSlot+
			"]) ? 'the selector of another Service' : ''",
		"dyn(object).?spec.?type.orValue('ClusterIP') != 'ClusterIP' ? 'the type ' + dyn(object).?spec.?type.orValue('') : "+
			"''",
	)
}

// labelPolicies cover objects with pods that are not in the contract, or lack our label: pods with our labels, and
// the templates of the two kinds that can create them.
func labelPolicies() []admission.Other {
	all := &metav1.LabelSelector{}
	// With what the API server would fill in, as the other policies have it.
	match := func(group string, objects *metav1.LabelSelector,
		resources ...string,
	) admissionregistrationv1.MatchResources {
		return admissionregistrationv1.MatchResources{
			MatchPolicy: new(admissionregistrationv1.Equivalent), NamespaceSelector: all, ObjectSelector: objects,
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
				{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{
						admissionregistrationv1.Create,
						admissionregistrationv1.Update,
					},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{group}, APIVersions: []string{"v1"},
						Resources: resources, Scope: new(admissionregistrationv1.AllScopes),
					},
				}},
			},
		}
	}
	selects := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: key, Operator: operator,
			Values: values,
		}}}
	}
	// The API server also takes labels of a pod from its status, and from its binding to a node.
	pods := []string{"pods", "pods/status", "pods/binding", "bindings"}
	return []admission.Other{
		{
			Name: "pods", Rule: labels(inPod, byController, ofPod),
			Match: match("", selects("freehold.dev/server", metav1.LabelSelectorOpExists), pods...),
		},
		{
			Name: "replicasets", Rule: labels(inTemplate, byDeployments, ofReplicaSet),
			Match: match("apps", all, "replicasets"),
		},
		{
			Name: "templates", Rule: labels(inTemplate, byOperator(), ""),
			Match: match("apps", selects("app.kubernetes.io/managed-by", metav1.LabelSelectorOpNotIn, "freehold"),
				"deployments"),
		},
	}
}
