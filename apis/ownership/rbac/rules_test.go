package rbac

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// wiki is a contract that has everything which roles are made of.
func wiki() ownership.Contract {
	object := func(group, kind, sub string) ownership.Object {
		return ownership.Object{
			GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind},
			Subresource:      sub,
		}
	}
	grant := func(identity string, o ownership.Object, create bool, names ...string) ownership.Grant {
		return ownership.Grant{Identity: identity, Object: o, Create: create, Names: names}
	}
	owned := func(g ownership.Grant) ownership.Grant {
		g.Owner = object("example.com", "Page", "")
		return g
	}
	return ownership.Contract{
		Grants: []ownership.Grant{
			grant("operator", object("example.com", "Page", ""), false),
			grant("operator", object("example.com", "Page", "status"), false),
			grant("operator", object("", "ConfigMap", ""), true, "PAGE-html"),
			grant("operator", object("", "Service", ""), true, "wiki"),
			grant("grantor", object(rbacv1.GroupName, "Role", ""), true, "PAGE-agent"),
			grant("PAGE-agent", object("example.com", "Page", "status"), false, "PAGE"),
			owned(grant("PAGE-agent", object("", "ConfigMap", ""), true, "PAGE-words", "PAGE-links")),
			grant("PAGE-agent", object("", "Secret", ""), false, "PAGE-*"),
		},
		Takeover: &ownership.Takeover{Annotation: "adopt"},
		Removals: []ownership.Removal{{Identity: "operator", Object: object("", "ConfigMap", "")}},
		Rights: []ownership.Right{
			{
				Identity: "operator", Group: "", Resource: "services", Names: []string{"wiki"},
				Verbs: []string{"watch", "get", "approve"},
			},
			{Identity: "operator", Group: "", Resource: "services", Verbs: []string{"create"}},
			{Identity: "PAGE-agent", Group: "example.com", Resource: "pages", Names: []string{"PAGE"}, Verbs: []string{"get"}},
		},
	}
}

func TestRolesAreMadeOfRows(t *testing.T) {
	for name, tc := range map[string]struct{ identity, whose, want string }{
		"patch without create, subresources apart, and names where they are known": {"operator", "", `
			configmaps patch create delete
			services create
			services [wiki] get watch patch create approve
			pages.example.com patch
			pages/status.example.com patch`},
		"whoever makes roles has what is granted": {"grantor", "", `
			configmaps patch create delete
			secrets patch
			pages.example.com get
			pages/finalizers.example.com update
			pages/status.example.com patch
			roles.rbac.authorization.k8s.io patch create`},
		"an identity of somebody's is narrowed to that": {"PAGE-agent", "home", `
			configmaps [home-words home-links] patch create delete
			secrets patch
			pages.example.com [home] get
			pages/finalizers.example.com [home] update
			pages/status.example.com [home] patch`},
		"nobody": {"somebody", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(strings.ReplaceAll(strings.TrimSpace(tc.want), "\t", ""),
				said(Rules(wiki(), tc.identity, tc.whose))); diff != "" {
				t.Errorf("the rules of %s differ (-want +got):\n%s", tc.identity, diff)
			}
		})
	}
}

// said is a rule on each line.
func said(rules []rbacv1.PolicyRule) string {
	var lines []string
	for _, r := range rules {
		line := strings.TrimSuffix(r.Resources[0]+"."+r.APIGroups[0], ".")
		if len(r.ResourceNames) > 0 {
			line += fmt.Sprintf(" %v", r.ResourceNames)
		}
		lines = append(lines, line+" "+strings.Join(r.Verbs, " "))
	}
	return strings.Join(lines, "\n")
}

func TestNamedRulesAreInARoleOfTheirOwn(t *testing.T) {
	got, err := YAML(wiki(), "operator", "wiki-system")
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: operator
rules:
- apiGroups:
  - ""
  resources:
  - configmaps
  verbs:
  - patch
  - create
  - delete
- apiGroups:
  - example.com
  resources:
  - pages
  verbs:
  - patch
- apiGroups:
  - example.com
  resources:
  - pages/status
  verbs:
  - patch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: operator
  namespace: wiki-system
rules:
- apiGroups:
  - ""
  resources:
  - services
  verbs:
  - create
- apiGroups:
  - ""
  resourceNames:
  - wiki
  resources:
  - services
  verbs:
  - get
  - watch
  - patch
  - create
  - approve
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("the file differs (-want +got):\n%s", diff)
	}
}
