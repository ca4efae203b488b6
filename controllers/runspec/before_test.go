package runspec

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// What a run config was rendered from can be rendered again, whatever the server says
// of its own, and only where it has the hash that was claimed.
func TestWhatWasRenderedIsReadBack(t *testing.T) {
	ref := func(name string) v1alpha1.LocalReference { return v1alpha1.LocalReference{Name: name} }
	logins := map[string]v1alpha1.MCPOIDCConfigSpec{
		"a provider": {OIDC: &v1alpha1.OIDCIssuer{Issuer: "https://login.example.com"}},
		"all of it": {ClockSkewSeconds: new(int32(0)), OIDC: &v1alpha1.OIDCIssuer{
			Issuer: "https://login.example.com", JWKSURL: "https://keys.example.com", Algorithms: []string{"RS256", "ES256"}, UsernameClaim: "email", GroupsClaim: "groups",
			CABundleRef:   &v1alpha1.CABundleReference{LocalReference: ref("ca")},
			Introspection: &v1alpha1.Introspection{URL: "https://tokens.example.com", ClientID: "me", ClientSecretRef: v1alpha1.SecretKeyReference{LocalReference: ref("client"), Key: "secret"}},
		}},
		"the cluster": {Kubernetes: &v1alpha1.KubernetesIssuer{ServiceAccounts: []v1alpha1.ServiceAccountReference{{Namespace: "b", Name: "x.y"}, {Namespace: "a", Name: "z"}}}},
	}
	server := &v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{OIDCConfigRef: &v1alpha1.OIDCConfigReference{Audiences: []string{"b", "a"}, Scopes: []string{"s"}}}}}
	for name, spec := range logins {
		login := &v1alpha1.MCPOIDCConfig{Spec: spec}
		run := For(server, "http://echo/mcp", login, nil)
		text, err := json.Marshal(run.Proxy)
		if err != nil {
			t.Fatal(err)
		}
		var ran runconfig.RunConfig
		if err := json.Unmarshal(text, &ran.Proxy); err != nil {
			t.Fatal(err)
		}
		before := LoginBefore(&ran, LoginHash(login))
		if before == nil {
			t.Errorf("%s: it cannot be told", name)
			continue
		}
		if diff := cmp.Diff(run.Proxy, For(server, "http://echo/mcp", before, nil).Proxy); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if LoginBefore(&ran, "another") != nil {
			t.Errorf("%s: it is believed without its hash", name)
		}
	}
	if LoginBefore(&runconfig.RunConfig{}, "") != nil || PoliciesBefore(&runconfig.RunConfig{}, "") != nil {
		t.Error("what is not there is told")
	}
}
