package workload

import (
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// CheckNetwork finds selectors and address ranges that the API server would refuse in the NetworkPolicy
// (https://kubernetes.io/docs/concepts/services-networking/network-policies). network may be nil; at is its path in
// what its author wrote.
func CheckNetwork(at string, network *v1alpha1.NetworkSpec) []podtemplate.Problem {
	if network == nil {
		return nil
	}
	var problems []podtemplate.Problem
	for i, rule := range network.Egress {
		for j, peer := range rule.To {
			path := field.NewPath(at, "egress").Index(i).Child("to").Index(j)
			problems = append(problems, checkSelector(path.Child("podSelector"), peer.PodSelector)...)
			problems = append(problems, checkSelector(path.Child("namespaceSelector"), peer.NamespaceSelector)...)
			problems = append(problems, checkBlock(path.Child("ipBlock"), peer.IPBlock)...)
		}
	}
	return problems
}

func checkSelector(path *field.Path, selector *metav1.LabelSelector) []podtemplate.Problem {
	var problems []podtemplate.Problem
	for _, e := range validation.ValidateLabelSelector(selector, validation.LabelSelectorValidationOptions{}, path) {
		problems = append(problems, podtemplate.Problem{
			Field: e.Field,
			Message: e.ErrorBody() + ": write keys and values of labels, with the operator In, NotIn, Exists or DoesNotExist, " +
				"for example matchLabels: {app: notes}",
		})
	}
	return problems
}

func checkBlock(path *field.Path, block *v1alpha1.EgressBlock) []podtemplate.Problem {
	if block == nil {
		return nil
	}
	whole, problems := checkRange(path.Child("cidr"), block.CIDR)
	for i, text := range block.Except {
		at := path.Child("except").Index(i)
		part, wrong := checkRange(at, text)
		problems = append(problems, wrong...)
		if len(problems) == 0 && (!whole.Contains(part.Addr()) || whole.Bits() >= part.Bits()) {
			problems = append(problems, podtemplate.Problem{
				Field: at.String(),
				Message: fmt.Sprintf("%s is no smaller range within %s: write for example cidr: 10.0.0.0/8 and except: "+
					"[10.1.0.0/16]", part, whole),
			})
		}
	}
	return problems
}

func checkRange(path *field.Path, text string) (netip.Prefix, []podtemplate.Problem) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix != prefix.Masked() {
		return prefix, []podtemplate.Problem{{
			Field: path.String(), Message: fmt.Sprintf(
				"%q is no range of addresses: write one that begins at its first address, for example 203.0.113.0/24", text),
		}}
	}
	return prefix, nil
}
