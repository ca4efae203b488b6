package runspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// SharedPolicies are what an MCPAuthzConfig says, read once for all servers that
// refer to it.
type SharedPolicies struct {
	Authorization runconfig.Authorization
	// Hash names them.
	Hash string
	// Err is why they cannot be read; it names policy, line and column.
	Err error
	// Unmatched are the statements that match no call.
	Unmatched []string
	// Deleting says that the MCPAuthzConfig is being deleted.
	Deleting bool
}

// ReadPolicies reads an MCPAuthzConfig.
func ReadPolicies(config *v1alpha1.MCPAuthzConfig) SharedPolicies {
	if err := TooLarge(&config.Spec); err != nil {
		return SharedPolicies{Deleting: config.DeletionTimestamp != nil, Err: fmt.Errorf("spec: %w", err)}
	}
	p := SharedPolicies{Authorization: *authorization(&config.Spec), Deleting: config.DeletionTimestamp != nil}
	p.Unmatched, p.Err = Unmatched(&config.Spec)
	p.Hash = hashOf(p.Authorization)
	return p
}

// PoliciesBefore are those that an MCPAuthzConfig of this hash had, read from a run
// config that was rendered from it; nil where that does not tell.
func PoliciesBefore(run *runconfig.RunConfig, hash string) *SharedPolicies {
	a := run.Proxy.Authorization
	if a == nil || hashOf(*a) != hash {
		return nil
	}
	return &SharedPolicies{Authorization: *a, Hash: hash}
}

// authorization has policies in canonical form, sorted by name: another order or
// other spaces say nothing new, and must restart nothing.
func authorization(config *v1alpha1.AuthzConfig) *runconfig.Authorization {
	if config == nil {
		return nil
	}
	a := &runconfig.Authorization{Entities: authz.CanonicalEntities(config.Entities)}
	for _, p := range config.Policies {
		a.Policies = append(a.Policies, runconfig.Policy{Name: p.Name, Text: authz.Canonical(p.Policy)})
	}
	slices.SortFunc(a.Policies, func(a, b runconfig.Policy) int { return cmp.Compare(a.Name, b.Name) })
	return a
}

// Policies reads the policies of a run config. An error names policy, line and
// column.
func Policies(a runconfig.Authorization) (*authz.Policies, error) {
	sources := make([]authz.Source, 0, len(a.Policies))
	for _, p := range a.Policies {
		sources = append(sources, authz.Source{Name: p.Name, Text: p.Text})
	}
	return authz.Parse(sources, a.Entities)
}

// Unmatched are the statements that match no call, or why policies cannot be read. It reads
// them in the text that their author knows: what is said of them names lines and columns of it.
func Unmatched(config *v1alpha1.AuthzConfig) (unmatched []string, err error) {
	sources := make([]authz.Source, 0, len(config.Policies))
	for _, p := range config.Policies {
		sources = append(sources, authz.Source{Name: p.Name, Text: p.Policy})
	}
	problems, err := authz.Unmatched(sources, config.Entities)
	for _, problem := range problems {
		unmatched = append(unmatched, problem.String())
	}
	return unmatched, err
}

// LoginHash names what an MCPOIDCConfig contributes to the run configs of all
// servers that refer to it.
func LoginHash(login *v1alpha1.MCPOIDCConfig) string {
	server := &v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{OIDCConfigRef: &v1alpha1.OIDCConfigReference{}}}}
	return hashOf(authentication(server, runconfig.Proxy{}, "", login))
}

// Own is a run config without what shared configurations contribute to it: only
// that they guard it.
func Own(run runconfig.RunConfig, spec *v1alpha1.MCPServerSpec) runconfig.RunConfig {
	if a := run.Proxy.Authentication; spec.OIDCConfigRef != nil && a != nil {
		run.Proxy.Authentication = &runconfig.Authentication{Resource: a.Resource, Audiences: a.Audiences, Scopes: a.Scopes}
	}
	if spec.AuthzConfigRef != nil {
		run.Proxy.Authorization = &runconfig.Authorization{}
	}
	return run
}

// hashOf names what a configuration contributes to run configs.
func hashOf(contributed any) string {
	data, err := json.Marshal(contributed)
	if err != nil {
		return "" // as no plain data is
	}
	return runconfig.HashOf(data)
}
