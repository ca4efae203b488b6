// Package oidc is the kind MCPOIDCConfig: whose tokens a proxy accepts. It is pure.
package oidc

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// The defaults of the schema of MCPOIDCConfig, for one that did not pass through it.
const (
	defaultSkew     = 10
	defaultUsername = "sub"
)

// clusterAlgorithms are those that an API server signs with.
var clusterAlgorithms = []string{"ES256", "ES384", "ES512", "RS256"}

// Kind is MCPOIDCConfig.
type Kind struct{}

// Row has its managers.
func (Kind) Row() contract.Config { return contract.ConfigOf("MCPOIDCConfig") }

// New is an empty MCPOIDCConfig.
func (Kind) New() frame.Object { return &v1alpha1.MCPOIDCConfig{} }

// Intent states a status.
func (Kind) Intent(
	name, namespace string, status *v1alpha1ac.ConfigStatusApplyConfiguration, _ []kinds.Object,
) runtime.ApplyConfiguration {
	return v1alpha1ac.MCPOIDCConfig(name, namespace).WithStatus(status)
}

// Check finds what the schema sees, too, unless the spec was stored under another one.
func (Kind) Check(object frame.Object) frame.Verdict {
	spec := &frame.As[*v1alpha1.MCPOIDCConfig](object).Spec
	if spec.OIDC == nil && spec.Kubernetes == nil {
		return frame.Verdict{Err: errors.New("spec has neither oidc nor kubernetes: " +
			"write oidc for the tokens of a provider, kubernetes for those of the cluster's service accounts")}
	}
	return frame.Contributes(login{authentication(spec)})
}

// AccessCheck is that of callers.
func (Kind) AccessCheck() string { return "authentication" }

// Guard states which tokens the workload asks for, of no issuer.
func (Kind) Guard(proxy *runconfig.Proxy, of frame.Referrer) { login{}.state(proxy, of) }

// Before is the login of a run config.
func (Kind) Before(ran *runconfig.Proxy) frame.Contribution {
	if ran.Authentication == nil {
		return nil
	}
	return login{forNobody(*ran.Authentication)}
}

type login struct{ runconfig.Authentication }

// Hash names the login.
func (l login) Hash() string { return frame.HashOf(l.Authentication) }

// AddTo states whose tokens the proxy of a workload accepts.
func (l login) AddTo(proxy *runconfig.Proxy, of frame.Referrer) []frame.Problem {
	l.state(proxy, of)
	if l.Issuer != "" || len(of.Spec.OIDCConfigRef.Scopes) == 0 {
		return nil
	}
	return []frame.Problem{{
		Field:   "spec.oidcConfigRef.scopes",
		Message: "tokens of service accounts have no scopes, so that no call would pass: remove scopes",
	}}
}

func (l login) state(proxy *runconfig.Proxy, of frame.Referrer) {
	ref, a := of.Spec.OIDCConfigRef, l.Authentication
	a.Resource, a.Scopes = of.URL, runspec.Sorted(ref.Scopes)
	if proxy.PublicURL != "" {
		a.Resource = strings.TrimSuffix(proxy.PublicURL, "/") + proxy.Path
	}
	if a.Audiences = runspec.Sorted(ref.Audiences); len(a.Audiences) == 0 {
		a.Audiences = []string{a.Resource}
	}
	proxy.Authentication = &a
}

// forNobody is a login without what a workload says of itself. Its hash is that of a workload that says nothing.
func forNobody(a runconfig.Authentication) runconfig.Authentication {
	a.Resource, a.Audiences, a.Scopes = "", []string{""}, nil
	return a
}

func authentication(spec *v1alpha1.MCPOIDCConfigSpec) runconfig.Authentication {
	a := forNobody(runconfig.Authentication{
		ClockSkewSeconds: defaultSkew, UsernameClaim: defaultUsername, Algorithms: clusterAlgorithms,
	})
	if skew := spec.ClockSkewSeconds; skew != nil {
		a.ClockSkewSeconds = *skew
	}
	if own := spec.Kubernetes; own != nil {
		for _, account := range own.ServiceAccounts {
			a.Usernames = append(a.Usernames, "system:serviceaccount:"+account.Namespace+":"+account.Name)
		}
		slices.Sort(a.Usernames)
		return a
	}
	provider := spec.OIDC
	a.Issuer, a.KeysURL = provider.Issuer, provider.JWKSURL
	if a.Algorithms = runspec.Sorted(provider.Algorithms); len(a.Algorithms) == 0 {
		a.Algorithms = []string{"ES256", "RS256"}
	}
	if provider.UsernameClaim != "" {
		a.UsernameClaim = provider.UsernameClaim
	}
	a.GroupsClaim = provider.GroupsClaim
	if i := provider.Introspection; i != nil {
		a.Introspection = &runconfig.Introspection{
			URL: i.URL, ClientID: i.ClientID,
			ClientSecret: runconfig.Key{Name: i.ClientSecretRef.Name, Key: i.ClientSecretRef.Key},
		}
	}
	a.CABundle = runspec.CABundle(provider.CABundleRef)
	return a
}
