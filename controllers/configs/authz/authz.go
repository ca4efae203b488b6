// Package authz is the kind MCPAuthzConfig: which calls a proxy allows. It is pure.
package authz

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/authz"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// Kind is MCPAuthzConfig.
type Kind struct{}

// Row has its managers.
func (Kind) Row() contract.Config { return contract.ConfigOf("MCPAuthzConfig") }

// New is an empty MCPAuthzConfig.
func (Kind) New() frame.Object { return &v1alpha1.MCPAuthzConfig{} }

// Intent states a status.
func (Kind) Intent(
	name, namespace string, status *v1alpha1ac.ConfigStatusApplyConfiguration, _ []kinds.Object,
) runtime.ApplyConfiguration {
	return v1alpha1ac.MCPAuthzConfig(name, namespace).WithStatus(status)
}

// Check reads the policies. An error names policy, line and column.
func (Kind) Check(object frame.Object) frame.Verdict {
	spec := &frame.As[*v1alpha1.MCPAuthzConfig](object).Spec
	verdict := frame.Verdict{}
	if err := runspec.TooLarge(spec); err != nil {
		verdict.Err = fmt.Errorf("spec: %w", err)
	} else if unmatched, err := Unmatched(spec); err != nil {
		verdict.Err = err
	} else {
		verdict = frame.Contributes(policies{*Of(spec)})
		verdict.Unmatched = unmatched
	}
	verdict.Policies = new(int32(min(len(spec.Policies), math.MaxInt32)))
	return verdict
}

// AccessCheck is that of calls.
func (Kind) AccessCheck() string { return "authorization" }

// Guard states policies that allow no call.
func (Kind) Guard(proxy *runconfig.Proxy, _ frame.Referrer) {
	proxy.Authorization = &runconfig.Authorization{}
}

// Before are the policies of a run config.
func (Kind) Before(ran *runconfig.Proxy) frame.Contribution {
	if ran.Authorization == nil {
		return nil
	}
	return policies{*ran.Authorization}
}

type policies struct{ runconfig.Authorization }

// Hash names the policies.
func (p policies) Hash() string { return frame.HashOf(p.Authorization) }

// AddTo states which calls the proxy of a workload allows.
func (p policies) AddTo(proxy *runconfig.Proxy, _ frame.Referrer) []frame.Problem {
	proxy.Authorization = &p.Authorization
	return nil
}

// Of has policies in canonical form, sorted by name: another order or other spaces say nothing
// new, and must restart nothing. It is nil without any.
func Of(spec *v1alpha1.AuthzConfig) *runconfig.Authorization {
	if spec == nil {
		return nil
	}
	a := &runconfig.Authorization{Entities: authz.CanonicalEntities(spec.Entities)}
	for _, p := range spec.Policies {
		a.Policies = append(a.Policies, runconfig.Policy{Name: p.Name, Text: authz.Canonical(p.Policy)})
	}
	slices.SortFunc(a.Policies, func(a, b runconfig.Policy) int { return cmp.Compare(a.Name, b.Name) })
	return a
}

// Policies reads the policies of a run config. An error names policy, line and column.
func Policies(a runconfig.Authorization) (*authz.Policies, error) {
	sources := make([]authz.Source, 0, len(a.Policies))
	for _, p := range a.Policies {
		sources = append(sources, authz.Source{Name: p.Name, Text: p.Text})
	}
	return authz.Parse(sources, a.Entities)
}

// Unmatched are the statements that match no call, or why policies cannot be read. It reads
// them in the text that their author knows: what is said of them names lines and columns of it.
func Unmatched(spec *v1alpha1.AuthzConfig) (unmatched []string, err error) {
	sources := make([]authz.Source, 0, len(spec.Policies))
	for _, p := range spec.Policies {
		sources = append(sources, authz.Source{Name: p.Name, Text: p.Policy})
	}
	problems, err := authz.Unmatched(sources, spec.Entities)
	for _, problem := range problems {
		unmatched = append(unmatched, problem.String())
	}
	return unmatched, err
}
