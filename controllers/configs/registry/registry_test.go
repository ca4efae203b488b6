package registry

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
)

// What a run config was rendered from can be rendered again, whatever the server says
// of its own, and only where it has the hash that was claimed.
func TestWhatWasRenderedIsReadBack(t *testing.T) {
	ref := func(name string) v1alpha1.LocalReference { return v1alpha1.LocalReference{Name: name} }
	logins := map[string]v1alpha1.MCPOIDCConfigSpec{
		"a provider": {OIDC: &v1alpha1.OIDCIssuer{Issuer: "https://login.example.com"}},
		"all of it": {ClockSkewSeconds: new(int32(0)), OIDC: &v1alpha1.OIDCIssuer{
			Issuer: "https://login.example.com", JWKSURL: "https://keys.example.com", Algorithms: []string{"RS256", "ES256"},
			UsernameClaim: "email", GroupsClaim: "groups",
			CABundleRef: &v1alpha1.CABundleReference{LocalReference: ref("ca")},
			Introspection: &v1alpha1.Introspection{
				URL: "https://tokens.example.com", ClientID: "me",
				ClientSecretRef: v1alpha1.SecretKeyReference{LocalReference: ref("client"), Key: "secret"},
			},
		}},
		"the cluster": {Kubernetes: &v1alpha1.KubernetesIssuer{
			ServiceAccounts: []v1alpha1.ServiceAccountReference{{Namespace: "b", Name: "x.y"}, {Namespace: "a", Name: "z"}},
		}},
	}
	server := &v1alpha1.MCPServer{
		Spec: v1alpha1.MCPServerSpec{ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
			OIDCConfigRef: &v1alpha1.OIDCConfigReference{Audiences: []string{"b", "a"}, Scopes: []string{"s"}},
		}},
	}
	of := frame.Referrer{Spec: &server.Spec.ProxyWorkloadSpec, URL: "http://echo/mcp"}
	for name, spec := range logins {
		set := Bind(&server.Spec, Read(&v1alpha1.MCPOIDCConfig{Spec: spec}))
		var proxy, ran runconfig.Proxy
		if wrong := set[0].AddTo(&proxy, of); len(wrong) > 0 && spec.OIDC != nil {
			t.Errorf("%s: %v", name, wrong)
		}
		text, err := json.Marshal(proxy)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &ran); err != nil {
			t.Fatal(err)
		}
		before, told := set.Before("MCPOIDCConfig", &ran, set[0].Verdict.Hash)
		if !told {
			t.Errorf("%s: it cannot be told", name)
			continue
		}
		var again runconfig.Proxy
		before[0].AddTo(&again, of)
		if diff := cmp.Diff(proxy, again); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if _, told := set.Before("MCPOIDCConfig", &ran, "another"); told {
			t.Errorf("%s: it is believed without its hash", name)
		}
		if _, told := set.Before("MCPOIDCConfig", &runconfig.Proxy{}, ""); told {
			t.Errorf("%s: what is not there is told", name)
		}
	}
}

// The hash of what a configuration says is in the claims of servers: another one for the same
// would have them all take their turns.
func TestTheHashesStayWhatTheyAre(t *testing.T) {
	for hash, config := range map[string]frame.Object{
		"2918c8f13705ef471aaee362610e61c8ee7a8da9b5b75a8d3278b8643745e6df": &v1alpha1.MCPOIDCConfig{
			Spec: v1alpha1.MCPOIDCConfigSpec{OIDC: &v1alpha1.OIDCIssuer{Issuer: "https://login.example.com"}},
		},
		"3c3e640b70650f8b0d74ea719a4118537aa7f18ef7ca7279b80e2a1583005194": &v1alpha1.MCPOIDCConfig{
			Spec: v1alpha1.MCPOIDCConfigSpec{Kubernetes: &v1alpha1.KubernetesIssuer{}},
		},
		"7ad25045c40b2526fb6de9f142d96a0ddfa82114138b7d850d614348b1740e8f": &v1alpha1.MCPAuthzConfig{
			Spec: v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{
				{Name: "all", Policy: "permit(principal, action, resource);"},
			}},
		},
	} {
		if got := Read(config)[0].Verdict.Hash; got != hash {
			t.Errorf("that of %T is %s, want %s", config, got, hash)
		}
	}
}

func TestWhatIsNotEnforcedIsNamed(t *testing.T) {
	reference := &v1alpha1.LocalReference{Name: "r"}
	of := func(spec v1alpha1.ProxyWorkloadSpec) v1alpha1.MCPServerSpec {
		return v1alpha1.MCPServerSpec{ProxyWorkloadSpec: spec}
	}
	for name, tc := range map[string]struct {
		spec v1alpha1.MCPServerSpec
		want []string
	}{
		"nothing":       {v1alpha1.MCPServerSpec{}, nil},
		"group":         {of(v1alpha1.ProxyWorkloadSpec{GroupRef: reference}), nil},
		"policies":      {of(v1alpha1.ProxyWorkloadSpec{AuthzConfig: &v1alpha1.AuthzConfig{}}), nil},
		"policy config": {of(v1alpha1.ProxyWorkloadSpec{AuthzConfigRef: reference}), nil},
		"login":         {of(v1alpha1.ProxyWorkloadSpec{OIDCConfigRef: &v1alpha1.OIDCConfigReference{}}), nil},
		"tools":         {v1alpha1.MCPServerSpec{ToolConfigRef: reference}, []string{"spec.toolConfigRef"}},
		"exchange":      {v1alpha1.MCPServerSpec{ExternalAuthConfigRef: reference}, []string{"spec.externalAuthConfigRef"}},
		"several": {
			v1alpha1.MCPServerSpec{ToolConfigRef: reference, ExternalAuthConfigRef: reference},
			[]string{"spec.externalAuthConfigRef", "spec.toolConfigRef"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, NotEnforced(&tc.spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The rows of the contract and the kinds are one list.
func TestEachRowHasItsKind(t *testing.T) {
	for i, row := range contract.Configs() {
		kind := Named(row.Object.Kind)
		if kind == nil || All()[i].Row().Object != row.Object {
			t.Errorf("of %s there is no kind, or it is not the %d-th", row.Object.Kind, i)
		}
	}
	if len(All()) != len(contract.Configs()) {
		t.Errorf("there are %d kinds, and %d rows of the contract", len(All()), len(contract.Configs()))
	}
}
