package admission

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Options are the settings beside the contract.
type Options struct {
	// Product owns the contract, in messages; in lower case it begins the names of the policies.
	Product string
	// Namespace has the ServiceAccounts of identities without a placeholder.
	Namespace string
	// Page is where people find the contract, for messages.
	Page string
	// Label is on each object that the contract creates. A policy of a kind whose grants have it examines only objects
	// with it, which costs others nothing, unless an identity with a placeholder writes the kind. Empty means that all
	// policies examine all objects.
	Label Label
	// Rules are additional rules of a kind, whoever writes it.
	Rules map[schema.GroupKind][]Rule
	// Others are policies for objects which are in no grant.
	Others []Other
}

// Other is a policy beside those of the contract's kinds.
type Other struct {
	// Name is no kind's plural.
	Name  string
	Match admissionregistrationv1.MatchResources
	Rule  Rule
}

// Label is one of an object's.
type Label struct{ Key, Value string }

// Rule is an additional rule of a kind. It is part of the kind's policy, because a second policy costs as much as the
// first.
type Rule struct {
	// Broken is CEL that is true if a validation refuses the request; it may be true elsewhere, and has no variables.
	Broken string
	// Variables and Validations are the policy's; no two rules use one name.
	Variables   []admissionregistrationv1.Variable
	Validations []admissionregistrationv1.Validation
}

// Policy is a policy and its binding.
type Policy struct {
	// Name is the plural of the kind, or "unlabelled", for the name of a file.
	Name    string
	Policy  admissionregistrationv1.ValidatingAdmissionPolicy
	Binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Compile returns one policy for each kind of the contract, in the order in which the contract first names them, one
// against objects without the label if some policies examine only objects with it, and the others. It returns an
// error for a path with a * in its middle, which a policy cannot express.
func Compile(c ownership.Contract, o Options) ([]Policy, error) {
	var policies []Policy
	var labelled []compiler
	for _, kind := range kinds(c) {
		k := compiler{Options: o, contract: c, kind: kind, resource: ownership.Object{GroupVersionKind: kind}.Resource()}
		spec, err := k.spec()
		if err != nil {
			return nil, fmt.Errorf("compiling the policy of %s: %w", kind.Kind, err)
		}
		policies = append(policies, o.policy(k.resource, spec))
		if k.labelled() {
			labelled = append(labelled, k)
		}
	}
	if len(labelled) > 0 {
		policies = append(policies, o.policy("unlabelled", unlabelled(labelled)))
	}
	for _, other := range o.Others {
		policies = append(policies, o.policy(other.Name, admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail), MatchConstraints: &other.Match,
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "suspicious", Expression: other.Rule.Broken}},
			Variables:       other.Rule.Variables, Validations: other.Rule.Validations,
		}))
	}
	return policies, nil
}

func kinds(c ownership.Contract) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, g := range c.Grants {
		if !slices.Contains(kinds, g.Object.GroupVersionKind) {
			kinds = append(kinds, g.Object.GroupVersionKind)
		}
	}
	return kinds
}

type compiler struct {
	Options
	contract ownership.Contract
	kind     schema.GroupVersionKind
	resource string
}

func (o Options) policy(of string, spec admissionregistrationv1.ValidatingAdmissionPolicySpec) Policy {
	name := strings.ToLower(o.Product) + "-managers-" + of
	return Policy{
		Name: of,
		Policy: admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta: metav1.TypeMeta{
				APIVersion: admissionregistrationv1.SchemeGroupVersion.String(),
				Kind:       "ValidatingAdmissionPolicy",
			},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       spec,
		},
		Binding: admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: metav1.TypeMeta{
				APIVersion: admissionregistrationv1.SchemeGroupVersion.String(),
				Kind:       "ValidatingAdmissionPolicyBinding",
			},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
}

func (k compiler) spec() (admissionregistrationv1.ValidatingAdmissionPolicySpec, error) {
	suspicious, err := k.suspicious()
	if err != nil {
		return admissionregistrationv1.ValidatingAdmissionPolicySpec{}, err
	}
	outside, err := k.outside()
	if err != nil {
		return admissionregistrationv1.ValidatingAdmissionPolicySpec{}, err
	}
	match := whole(&metav1.LabelSelector{},
		k.rule(k.resources(), admissionregistrationv1.Create, admissionregistrationv1.Update))
	if k.labelled() {
		match.ObjectSelector.MatchLabels = map[string]string{k.Label.Key: k.Label.Value}
	}
	spec := admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Fail), MatchConstraints: match,
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "suspicious", Expression: suspicious}},
		Variables:       slices.Concat(k.asker(), entries(), outside, k.baseline()),
		Validations:     k.validations(),
	}
	for _, rule := range k.Rules[k.kind.GroupKind()] {
		spec.Variables = append(spec.Variables, rule.Variables...)
		spec.Validations = append(spec.Validations, rule.Validations...)
	}
	return spec, nil
}

// unlabelled forbids our identities to create objects without the label that the policies of some kinds would not
// examine, and to update those of kinds that they write once: the answer to an update contains the whole object.
func unlabelled(of []compiler) admissionregistrationv1.ValidatingAdmissionPolicySpec {
	k := of[0]
	match := whole(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: k.Label.Key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{k.Label.Value}},
	}})
	for _, each := range of {
		operations := []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
		if each.once() {
			operations = append(operations, admissionregistrationv1.Update)
		}
		match.ResourceRules = append(match.ResourceRules, each.rule([]string{each.resource}, operations...))
	}
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Fail), MatchConstraints: match,
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "ours", Expression: user + " in " + texts(k.fixed())},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "false", MessageExpression: k.noLabel()}},
	}
}

// whole states the API server's defaults. The field is atomic, so an apply without the defaults states another value
// than the stored one, and conflicts with whoever installed the same policy by other means.
func whole(
	selector *metav1.LabelSelector,
	rules ...admissionregistrationv1.NamedRuleWithOperations,
) *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{
		MatchPolicy: new(admissionregistrationv1.Equivalent), NamespaceSelector: &metav1.LabelSelector{},
		ObjectSelector: selector, ResourceRules: rules,
	}
}

func (k compiler) rule(
	resources []string,
	operations ...admissionregistrationv1.OperationType,
) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{k.kind.Group}, APIVersions: []string{k.kind.Version},
			Resources: resources, Scope: new(admissionregistrationv1.AllScopes),
		},
	}}
}

// labelled: the policy examines only objects with the label.
func (k compiler) labelled() bool {
	if k.Label.Key == "" {
		return false
	}
	label := ownership.MustPath(fmt.Sprintf("metadata.labels[%q]", k.Label.Key))
	has := false
	for _, g := range k.grants() {
		if capitals.MatchString(g.Identity) {
			return false
		}
		has = has || slices.ContainsFunc(g.Fields, label.Overlaps)
	}
	return has
}

// once: every grant on the kind is of what is written once.
func (k compiler) once() bool {
	return !slices.ContainsFunc(k.grants(), func(g ownership.Grant) bool { return !g.Once })
}

// resources are what the policy covers: the object, its granted subresources, and the scale, which our managers never
// write and which has no labels. The status of a foreign kind is left out, because Kubernetes' own controllers write
// it constantly, and nobody else may.
func (k compiler) resources() []string {
	resources := []string{k.resource}
	if !k.labelled() {
		resources = append(resources, k.resource+"/scale")
	}
	for _, g := range k.grants() {
		if g.Object.Subresource != "" {
			resources = append(resources, k.resource+"/"+g.Object.Subresource)
		}
	}
	slices.Sort(resources)
	return slices.Compact(resources)
}

// The first validation that fails is what people read. Allowed requests do not come here.
func (k compiler) validations() []admissionregistrationv1.Validation {
	validations := []admissionregistrationv1.Validation{
		{
			Expression:        "variables.identities.size() == 0 || variables.owner in variables.identities",
			MessageExpression: k.ownNames(),
		},
		{
			// Everybody may give up fields: kubectl freehold release.
			Expression:        "variables.owner == '' || variables.owner in variables.identities || variables.released",
			MessageExpression: k.ourNames(),
		},
		{Expression: "variables.identities.size() == 0 || variables.granted", MessageExpression: k.noGrant()},
		{Expression: "variables.identities.size() == 0 || variables.updates.size() == 0", MessageExpression: k.noUpdate()},
		{Expression: "variables.identities.size() == 0 || variables.tracked", MessageExpression: k.hidden()},
		{Expression: "variables.outside.size() == 0", MessageExpression: k.tooMuch()},
	}
	if k.confines() {
		validations = append(validations,
			admissionregistrationv1.Validation{Expression: "variables.opened.size() == 0", MessageExpression: k.beyond()})
	}
	return validations
}

func (k compiler) grants() []ownership.Grant {
	return slices.DeleteFunc(slices.Clone(k.contract.Grants), func(g ownership.Grant) bool {
		return g.Object.GroupVersionKind != k.kind
	})
}

// managers are all of the contract with their identities.
func (k compiler) managers() map[string]string {
	managers := map[string]string{}
	for _, g := range k.contract.Grants {
		managers[string(g.Manager)] = g.Identity
	}
	return managers
}

func text(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
}

func texts(list []string) string {
	quoted := make([]string, 0, len(list))
	for _, s := range list {
		quoted = append(quoted, text(s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
