package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership/rbac"
)

// checkRights asks the API server whether an operator's accounts may do what the contract has them do, in each
// namespace that it watches.
func (c *cli) checkRights(ctx context.Context, list *checks, d *appsv1.Deployment) {
	_, client, err := c.clientset()
	if err != nil {
		list.add("rights", unknown, err.Error())
		return
	}
	asked, lacks := 0, []string{}
	for _, namespace := range watched(d) {
		for _, identity := range append(contract.Controllers(), contract.IdentityOperator) {
			account := identity
			if identity == contract.IdentityOperator {
				account = d.Spec.Template.Spec.ServiceAccountName
			}
			for _, rule := range rbac.Rules(c.contract, identity, "") {
				// Its Lease is in its own namespace, and routes are only needed by servers that have spec.proxy.httpRoute.
				if rule.APIGroups[0] == "coordination.k8s.io" || rule.Resources[0] == "serviceaccounts" &&
					slices.Contains(rule.Verbs, "impersonate") || rule.APIGroups[0] == contract.HTTPRoute.Group {
					continue
				}
				found, err := mayNot(ctx, client, namespace, d.Namespace, account, rule)
				if err != nil {
					list.add("rights", unknown, err.Error())
					return
				}
				asked += len(rule.Verbs)
				lacks = append(lacks, found...)
			}
		}
	}
	if len(lacks) > 0 {
		list.add("rights", failed, some(lacks)+": apply the roles of the operator's release (the chart's rbac.create)")
		return
	}
	list.add("rights", passed, fmt.Sprintf("all %d that the accounts of %s need", asked, d.Name))
}

// watched are the namespaces that an operator watches, one that is empty for all.
func watched(d *appsv1.Deployment) []string {
	for _, container := range d.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			if names, is := strings.CutPrefix(arg, "--namespaces="); is && names != "" {
				return strings.Split(names, ",")
			}
		}
	}
	return []string{""}
}

// mayNot are the verbs of a rule that an account of home may not use in a namespace.
func mayNot(
	ctx context.Context, client kubernetes.Interface, namespace, home, account string, rule rbacv1.PolicyRule,
) (lacks []string, err error) {
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	name := ""
	if len(rule.ResourceNames) > 0 {
		name = rule.ResourceNames[0]
	}
	for _, verb := range rule.Verbs {
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: serviceaccount.MakeUsername(home, account), Groups: serviceaccount.MakeGroupNames(home),
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
					Name: name,
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !answer.Status.Allowed {
			lacks = append(lacks, fmt.Sprintf("ServiceAccount %s/%s may not %s %s%s", home, account, verb, rule.Resources[0],
				map[bool]string{true: "", false: " in " + namespace}[namespace == ""]))
		}
	}
	return lacks, nil
}
