package rbac

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// capitals are placeholders in names of identities and objects, as SERVER is for a server's name.
var capitals = regexp.MustCompile("[A-Z]+")

// Rules are what identity may do by the contract, a rule for each resource and its names, sorted by group and resource.
//
// whose replaces capitals in names; if it is empty, such names are unknown, and the rule covers objects of any name.
// A rule with names lets them be created by an apply, which has the name in its URL, and not by a POST; it lets them
// be listed and watched by the field selector metadata.name
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources).
//
// An identity that creates an object with an owner may update the finalizers of that owner and, where the contract
// takes objects over, delete the object: clusters with OwnerReferencesPermissionEnforcement require both
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#ownerreferencespermissionenforcement).
//
// An identity that writes Roles also has the rules of every identity with capitals in its name: it creates their
// Roles, and the API server lets an account grant only what it has
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-creation-or-update).
func Rules(c ownership.Contract, identity, whose string) []rbacv1.PolicyRule {
	r := rules{whose: whose}
	r.of(c, identity)
	if r.grants {
		for _, other := range c.Identities() {
			if capitals.MatchString(other) && other != identity {
				r.of(c, other)
			}
		}
	}
	slices.SortFunc(r.rules, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(cmp.Compare(a.APIGroups[0], b.APIGroups[0]), cmp.Compare(a.Resources[0], b.Resources[0]),
			slices.Compare(a.ResourceNames, b.ResourceNames))
	})
	return r.rules
}

// verbs are all that a contract uses, in the order of rules.
var verbs = []string{"get", "list", "watch", "patch", "create", "update", "delete", "impersonate"}

type rules struct {
	whose string
	// grants: Roles are written.
	grants bool
	rules  []rbacv1.PolicyRule
}

func (r *rules) of(c ownership.Contract, identity string) {
	for _, g := range c.Grants {
		if g.Identity != identity {
			continue
		}
		resource := g.Object.Resource()
		if g.Object.Subresource != "" {
			resource += "/" + g.Object.Subresource
		}
		r.add(g.Object.Group, resource, g.Names, "patch")
		if g.Create {
			r.add(g.Object.Group, resource, g.Names, "create")
		}
		if g.Owner.Kind != "" {
			r.add(g.Owner.Group, g.Owner.Resource()+"/finalizers", owners(g), "update")
			if c.Takeover != nil && !g.Once {
				r.add(g.Object.Group, resource, g.Names, "delete")
			}
		}
		r.grants = r.grants || g.Object.Group == rbacv1.GroupName && g.Object.Kind == "Role"
	}
	for _, removal := range c.Removals {
		if removal.Identity == identity {
			r.add(removal.Object.Group, removal.Object.Resource(), nil, "delete")
		}
	}
	for _, right := range c.Rights {
		if right.Identity == identity {
			r.add(right.Group, right.Resource, right.Names, right.Verbs...)
		}
	}
}

// owners are the names of the owners of a grant's objects: the capitals in theirs.
func owners(g ownership.Grant) []string {
	var names []string
	for _, pattern := range g.Names {
		if word := capitals.FindString(pattern); word != "" && !slices.Contains(names, word) {
			names = append(names, word)
		}
	}
	return names
}

func (r *rules) add(group, resource string, patterns []string, more ...string) {
	names := r.names(patterns)
	i := slices.IndexFunc(r.rules, func(rule rbacv1.PolicyRule) bool {
		return rule.APIGroups[0] == group && rule.Resources[0] == resource && slices.Equal(rule.ResourceNames, names)
	})
	if i < 0 {
		i = len(r.rules)
		r.rules = append(r.rules, rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: []string{resource},
			ResourceNames: names,
		})
	}
	rule := &r.rules[i]
	for _, verb := range more {
		if !slices.Contains(rule.Verbs, verb) {
			rule.Verbs = append(rule.Verbs, verb)
		}
	}
	slices.SortFunc(rule.Verbs, func(a, b string) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
	})
}

// place is the rank of a verb in a rule; unknown ones come last.
func place(verb string) int {
	if i := slices.Index(verbs, verb); i >= 0 {
		return i
	}
	return len(verbs)
}

func (r *rules) names(patterns []string) []string {
	var names []string
	for _, pattern := range patterns {
		held := capitals.MatchString(pattern)
		if strings.Contains(pattern, "*") || held && r.whose == "" {
			return nil
		}
		names = append(names, capitals.ReplaceAllString(pattern, r.whose))
	}
	return names
}
