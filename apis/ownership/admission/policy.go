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

// Options are what the contract does not say.
type Options struct {
	// Product is whose contract it is, in messages; in lower case it begins the
	// names of the policies.
	Product string
	// Namespace is where the ServiceAccounts are whose names hold nobody else's.
	Namespace string
	// Page is where people find the contract, for messages.
	Page string
}

// Policy is a policy and its binding.
type Policy struct {
	// Name is the plural of the kind, for the name of a file.
	Name    string
	Policy  admissionregistrationv1.ValidatingAdmissionPolicy
	Binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Compile returns one policy for each kind of the contract, in the order in
// which the contract first names them. It returns an error for what cannot be
// said in a policy: a path with a * in its middle, or two identities that hold
// somebody's name.
func Compile(c ownership.Contract, o Options) ([]Policy, error) {
	var policies []Policy
	for _, kind := range kinds(c) {
		k := compiler{Options: o, contract: c, kind: kind, resource: ownership.Object{GroupVersionKind: kind}.Resource()}
		policy, err := k.policy()
		if err != nil {
			return nil, fmt.Errorf("compiling the policy of %s: %w", kind.Kind, err)
		}
		policies = append(policies, policy)
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

// compiler makes the policy of one kind.
type compiler struct {
	Options
	contract ownership.Contract
	kind     schema.GroupVersionKind
	resource string
}

func (k compiler) policy() (Policy, error) {
	name := strings.ToLower(k.Product) + "-managers-" + k.resource
	spec, err := k.spec()
	return Policy{
		Name: k.resource,
		Policy: admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       spec,
		},
		Binding: admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}, err
}

func (k compiler) spec() (admissionregistrationv1.ValidatingAdmissionPolicySpec, error) {
	ours, err := k.ours()
	if err != nil {
		return admissionregistrationv1.ValidatingAdmissionPolicySpec{}, err
	}
	variables, err := k.variables()
	if err != nil {
		return admissionregistrationv1.ValidatingAdmissionPolicySpec{}, err
	}
	fail := admissionregistrationv1.Fail
	rule := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{k.kind.Group}, APIVersions: []string{k.kind.Version},
			Resources: k.resources(),
		},
	}}
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy:    &fail,
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule}},
		MatchConditions:  []admissionregistrationv1.MatchCondition{{Name: "ours", Expression: ours}},
		Variables:        variables,
		Validations:      k.validations(),
	}, nil
}

// resources are where the policy looks: at the object, at the subresources that
// are granted, and at the scale, where a manager of ours has no business. The
// status of a kind that is not ours is left out, because Kubernetes' own
// controllers write it all the time, and looking costs.
func (k compiler) resources() []string {
	resources := []string{k.resource, k.resource + "/scale"}
	for _, g := range k.grants() {
		if g.Object.Subresource != "" {
			resources = append(resources, k.resource+"/"+g.Object.Subresource)
		}
	}
	slices.Sort(resources)
	return slices.Compact(resources)
}

func (k compiler) variables() ([]admissionregistrationv1.Variable, error) {
	variables, err := k.asker()
	if err != nil {
		return nil, err
	}
	outside, err := k.outside()
	return slices.Concat(variables, entries(), outside, k.baseline()), err
}

// validations are judged in this order, and the first that fails is what
// people read. The API server works out all of their messages whenever the
// policy matches, so a message costs as much as a judgement and must not fail.
func (k compiler) validations() []admissionregistrationv1.Validation {
	validations := []admissionregistrationv1.Validation{
		{
			Expression:        "variables.identity == '' || variables.owner == variables.identity",
			MessageExpression: k.ownNames(),
		},
		{
			// Giving up is everybody's: kubectl freehold release.
			Expression:        "variables.owner == '' || variables.owner == variables.identity || variables.released",
			MessageExpression: k.ourNames(),
		},
		{Expression: "variables.identity == '' || variables.granted", MessageExpression: k.noGrant()},
		{Expression: "variables.identity == '' || variables.updates.size() == 0", MessageExpression: k.noUpdate()},
		{Expression: "variables.identity == '' || variables.tracked", MessageExpression: k.hidden()},
		{Expression: "variables.outside.size() == 0", MessageExpression: k.tooMuch()},
	}
	if k.confines() {
		validations = append(validations, admissionregistrationv1.Validation{Expression: "variables.opened.size() == 0", MessageExpression: k.beyond()})
	}
	return validations
}

// grants are those on the kind.
func (k compiler) grants() []ownership.Grant {
	return slices.DeleteFunc(slices.Clone(k.contract.Grants), func(g ownership.Grant) bool {
		return g.Object.GroupVersionKind != k.kind
	})
}

// managers are all of the contract and whose they are.
func (k compiler) managers() map[string]string {
	managers := map[string]string{}
	for _, g := range k.contract.Grants {
		managers[string(g.Manager)] = g.Identity
	}
	return managers
}

// text is a string literal of CEL.
func text(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
}

// texts is a list literal of CEL.
func texts(list []string) string {
	quoted := make([]string, 0, len(list))
	for _, s := range list {
		quoted = append(quoted, text(s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
