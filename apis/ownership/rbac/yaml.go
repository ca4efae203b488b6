package rbac

import (
	"bytes"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// YAML is what an identity may do as a file of one or two documents with its name: a ClusterRole for the objects of
// others, and a Role in namespace with the rules that name their objects, and those that only create what another
// rule names, because a POST has no name: these objects are the operator's own, where it runs.
func YAML(c ownership.Contract, identity, namespace string) ([]byte, error) {
	anywhere := rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{
		APIVersion: rbacv1.SchemeGroupVersion.String(),
		Kind:       "ClusterRole",
	}}
	own := rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}}
	anywhere.Name, own.Name, own.Namespace = identity, identity, namespace
	rules := Rules(c, identity, "")
	named := func(r rbacv1.PolicyRule) bool { return len(r.ResourceNames) > 0 }
	for _, rule := range rules {
		creates := slices.Equal(rule.Verbs, []string{"create"}) && slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return named(r) && slices.Equal(r.APIGroups, rule.APIGroups) && slices.Equal(r.Resources, rule.Resources)
		})
		if named(rule) || creates {
			own.Rules = append(own.Rules, rule)
		} else {
			anywhere.Rules = append(anywhere.Rules, rule)
		}
	}
	var roles []any
	if len(anywhere.Rules) > 0 {
		roles = append(roles, anywhere)
	}
	if len(own.Rules) > 0 {
		roles = append(roles, own)
	}
	var documents [][]byte
	for _, role := range roles {
		document, err := yaml.Marshal(role)
		if err != nil {
			return nil, fmt.Errorf("writing the roles of %s: %w", identity, err)
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}
