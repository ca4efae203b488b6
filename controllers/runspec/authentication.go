package runspec

import (
	"cmp"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// The defaults of the schema of MCPOIDCConfig, for one that did not pass through it.
const (
	defaultSkew     = 10
	defaultUsername = "sub"
	defaultCAKey    = "ca.crt"
)

// clusterAlgorithms are those that an API server signs with.
var clusterAlgorithms = []string{"ES256", "ES384", "ES512", "RS256"}

// authentication is whose tokens the proxy accepts. For a login that does not exist
// or says nothing it accepts none: that content is never run, and says that a proxy without a login
// may not go on.
func authentication(server *v1alpha1.MCPServer, proxy runconfig.Proxy, url string, login *v1alpha1.MCPOIDCConfig) *runconfig.Authentication {
	ref := server.Spec.OIDCConfigRef
	switch {
	case ref == nil:
		return nil
	case login == nil, login.Spec.OIDC == nil && login.Spec.Kubernetes == nil:
		return &runconfig.Authentication{}
	}
	a := &runconfig.Authentication{
		ClockSkewSeconds: defaultSkew,
		UsernameClaim:    defaultUsername,
		Algorithms:       clusterAlgorithms,
		Resource:         url,
		Scopes:           set(ref.Scopes),
	}
	if proxy.PublicURL != "" {
		a.Resource = strings.TrimSuffix(proxy.PublicURL, "/") + proxy.Path
	}
	if a.Audiences = set(ref.Audiences); len(a.Audiences) == 0 {
		a.Audiences = []string{a.Resource}
	}
	if skew := login.Spec.ClockSkewSeconds; skew != nil {
		a.ClockSkewSeconds = *skew
	}
	if own := login.Spec.Kubernetes; own != nil {
		for _, account := range own.ServiceAccounts {
			a.Usernames = append(a.Usernames, "system:serviceaccount:"+account.Namespace+":"+account.Name)
		}
		slices.Sort(a.Usernames)
		return a
	}
	provider := login.Spec.OIDC
	a.Issuer, a.KeysURL = provider.Issuer, provider.JWKSURL
	if a.Algorithms = set(provider.Algorithms); len(a.Algorithms) == 0 {
		a.Algorithms = []string{"ES256", "RS256"}
	}
	if provider.UsernameClaim != "" {
		a.UsernameClaim = provider.UsernameClaim
	}
	a.GroupsClaim = provider.GroupsClaim
	if i := provider.Introspection; i != nil {
		a.Introspection = &runconfig.Introspection{
			URL: i.URL, ClientID: i.ClientID, ClientSecret: runconfig.Key{Name: i.ClientSecretRef.Name, Key: i.ClientSecretRef.Key},
		}
	}
	if ref := provider.CABundleRef; ref != nil {
		a.CABundle = &runconfig.Key{Name: ref.Name, Key: cmp.Or(ref.Key, defaultCAKey)}
	}
	return a
}

// LoginBefore is an MCPOIDCConfig that says what one of this hash said, read from a run
// config that was rendered from it; nil where that does not tell.
func LoginBefore(run *runconfig.RunConfig, hash string) *v1alpha1.MCPOIDCConfig {
	a := run.Proxy.Authentication
	if a == nil {
		return nil
	}
	login := &v1alpha1.MCPOIDCConfig{Spec: v1alpha1.MCPOIDCConfigSpec{ClockSkewSeconds: &a.ClockSkewSeconds}}
	if a.Issuer == "" {
		login.Spec.Kubernetes = &v1alpha1.KubernetesIssuer{}
		for _, name := range a.Usernames {
			if part := strings.Split(name, ":"); len(part) == usernameParts {
				login.Spec.Kubernetes.ServiceAccounts = append(login.Spec.Kubernetes.ServiceAccounts, v1alpha1.ServiceAccountReference{Namespace: part[2], Name: part[3]})
			}
		}
	} else {
		login.Spec.OIDC = &v1alpha1.OIDCIssuer{
			Issuer: a.Issuer, JWKSURL: a.KeysURL, Algorithms: a.Algorithms, UsernameClaim: a.UsernameClaim, GroupsClaim: a.GroupsClaim,
		}
		if i := a.Introspection; i != nil {
			login.Spec.OIDC.Introspection = &v1alpha1.Introspection{
				URL: i.URL, ClientID: i.ClientID, ClientSecretRef: v1alpha1.SecretKeyReference{LocalReference: v1alpha1.LocalReference{Name: i.ClientSecret.Name}, Key: i.ClientSecret.Key},
			}
		}
		if b := a.CABundle; b != nil {
			login.Spec.OIDC.CABundleRef = &v1alpha1.CABundleReference{LocalReference: v1alpha1.LocalReference{Name: b.Name}, Key: b.Key}
		}
	}
	if LoginHash(login) != hash {
		return nil
	}
	return login
}

// usernameParts are those of system:serviceaccount:NAMESPACE:NAME.
const usernameParts = 4

// set is sorted: another order says nothing new, and must restart nothing.
func set(items []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(items)))
}
