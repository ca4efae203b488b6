// Package references knows which workloads refer to which shared configurations,
// in both directions: references.go by what a spec says, index.go by what a cache
// holds. A field that refers is one row here, a kind of workload one of
// controllers/kinds.
package references

import (
	"cmp"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// field is a field of a workload that names a configuration.
type field struct {
	// config is the kind that it names.
	config string
	// path is its name in the cache's index.
	path string
	name func(*v1alpha1.MCPServerSpec) string
}

var fields = []field{
	{contract.MCPOIDCConfig.Kind, "spec.oidcConfigRef.name", func(s *v1alpha1.MCPServerSpec) string {
		return cmp.Or(s.OIDCConfigRef, &v1alpha1.OIDCConfigReference{}).Name
	}},
	{contract.MCPAuthzConfig.Kind, "spec.authzConfigRef.name", func(s *v1alpha1.MCPServerSpec) string {
		return cmp.Or(s.AuthzConfigRef, &v1alpha1.LocalReference{}).Name
	}},
}

// From is the name of the configuration of a kind that a workload refers to, empty
// if to none.
func From(workload client.Object, config string) string {
	server := kinds.Form(workload)
	if server == nil {
		return ""
	}
	for _, f := range fields {
		if f.config == config {
			return f.name(&server.Spec)
		}
	}
	return ""
}
