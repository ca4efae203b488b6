// Package operator is an operator of somebody else: of an API group, a kind and a contract of its own, which keeps the
// pages of a wiki in ConfigMaps. It takes apis/ownership and controllers/apply from Freehold, and nothing more;
// docs/library.md explains it.
//
// contract.go says who writes what, page.go is the kind, operator.go the pass.
package operator

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The managers. Each is a purpose, not a process.
const (
	HTML   ownership.Manager = "page.wiki.example.com/html"
	Status ownership.Manager = "page.wiki.example.com/status"
)

// Contract is the table of what the operator may write. Everything else in the same objects belongs to others.
func Contract() ownership.Contract {
	return ownership.Contract{Grants: []ownership.Grant{{
		Manager: HTML, Identity: "wiki-operator", Mode: ownership.Exclusive, Create: true,
		Object: ownership.Object{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap")},
		Names:  []string{"PAGE-html"},
		Fields: ownership.Paths(`metadata.labels["wiki.example.com/page"]`, `metadata.ownerReferences[*]`,
			`data["index.html"]`),
		Owner: ownership.Object{GroupVersionKind: GroupVersion.WithKind("Page")},
		Why:   "carries the page to whoever serves it",
	}, {
		Manager: Status, Identity: "wiki-operator", Mode: ownership.Exclusive,
		Object: ownership.Object{GroupVersionKind: GroupVersion.WithKind("Page"), Subresource: "status"},
		Fields: ownership.Paths("status.configMap", "status.conditions[type=Ready]"),
		Why:    "says whether the page can be served, and from where",
	}}}
}
