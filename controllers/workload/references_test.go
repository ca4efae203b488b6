package workload

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
)

const readers = `permit(principal, action == Action::"call_tool", resource == Tool::"read");`

// saying is an MCPAuthzConfig, one policy a text.
func saying(texts ...string) *v1alpha1.MCPAuthzConfig {
	config := &v1alpha1.MCPAuthzConfig{}
	for i, text := range texts {
		config.Spec.Policies = append(config.Spec.Policies, v1alpha1.AuthzPolicy{Name: string(rune('a' + i)), Policy: text})
	}
	return config
}

// with are configurations in place of those of options.
func with(configs ...frame.Object) change {
	return func(_ *v1alpha1.MCPServer, o *given) { o.Configs = registry.Read(configs...) }
}

// loginWith is a login with an edit.
func loginWith(edit func(*v1alpha1.MCPOIDCConfig)) *v1alpha1.MCPOIDCConfig {
	other := login.DeepCopy()
	edit(other)
	return other
}

func shared(t *testing.T) *v1alpha1.MCPServer {
	t.Helper()
	server := read(t, "full")
	server.Spec.AuthzConfig, server.Spec.AuthzConfigRef = nil, &v1alpha1.LocalReference{Name: "team"}
	return server
}

func TestWhatAConfigurationSaysIsNotTheServersOwn(t *testing.T) {
	before := sound(t, shared(t), options)
	for name, tc := range map[string]struct {
		content, own bool // whether it changes
		edit         change
	}{
		"nothing":            {false, false, func(*v1alpha1.MCPServer, *given) {}},
		"spaces of a policy": {false, false, with(login, saying("// who reads\n"+strings.ReplaceAll(readers, " ", "\n ")))},
		"a policy":           {true, false, with(login, saying(readers, readers))},
		"a login": {
			true, false,
			with(saying(readers), loginWith(func(l *v1alpha1.MCPOIDCConfig) { l.Spec.OIDC.UsernameClaim = "email" })),
		},
		"a login that is mounted": {
			true, false, with(saying(readers), loginWith(func(l *v1alpha1.MCPOIDCConfig) { l.Spec.OIDC.CABundleRef = nil })),
		},
		"the scopes": {true, true, func(s *v1alpha1.MCPServer, _ *given) {
			s.Spec.OIDCConfigRef.Scopes = []string{"x"}
		}},
		"the image": {true, true, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.Image = "other" }},
		"the name": {false, true, func(s *v1alpha1.MCPServer, _ *given) {
			s.Spec.AuthzConfigRef.Name = "other"
		}},
		"a reference": {true, true, func(s *v1alpha1.MCPServer, _ *given) { s.Spec.OIDCConfigRef = nil }},
		"the way back to a server's own policies": {false, true, func(s *v1alpha1.MCPServer, _ *given) {
			s.Spec.AuthzConfigRef, s.Spec.AuthzConfig = nil,
				&v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{{Name: "a", Policy: readers}}}
		}},
	} {
		server, opts := shared(t), options
		tc.edit(server, &opts)
		got := sound(t, server, opts)
		if content, own := got.Hash != before.Hash, got.OwnHash != before.OwnHash; content != tc.content || own != tc.own {
			t.Errorf("%s: changes content: %t, want %t; changes the server's own: %t, want %t", name, content, tc.content, own,
				tc.own)
		}
	}
	if own := sound(t, read(t, "minimal"), options).OwnHash; own != "" {
		t.Errorf("a server without references has %s of its own", own)
	}
}

func TestAReferenceThatCannotBeFollowedIsAProblemWithItsReason(t *testing.T) {
	gone := func(config frame.Object) frame.Object {
		config.SetDeletionTimestamp(&metav1.Time{})
		return config
	}
	for name, tc := range map[string]struct {
		edit         change
		reason, says string
	}{
		"no policies": {
			with(login), v1alpha1.ReasonConfigNotFound, `spec.authzConfigRef: MCPAuthzConfig "team" does not exist`,
		},
		"no login": {
			with(saying(readers)), v1alpha1.ReasonConfigNotFound, `spec.oidcConfigRef: MCPOIDCConfig "company" does not exist`,
		},
		"neither": {
			with(), v1alpha1.ReasonConfigNotFound, `spec.oidcConfigRef: MCPOIDCConfig "company" does not exist`,
		},
		"no Cedar": {
			with(login, saying(readers, "\npermit(")),
			v1alpha1.ReasonConfigInvalid, `spec.authzConfigRef: MCPAuthzConfig "team": policy "b", line 2, column`,
		},
		"policies that go": {
			with(login, gone(saying(readers))), v1alpha1.ReasonConfigDeleting,
			`spec.authzConfigRef: MCPAuthzConfig "team" is being deleted`,
		},
		"a login that goes": {
			with(saying(readers), gone(login.DeepCopy())), v1alpha1.ReasonConfigDeleting,
			`spec.oidcConfigRef: MCPOIDCConfig "company" is being deleted`,
		},
		"and something of its own": {func(s *v1alpha1.MCPServer, o *given) {
			s.Spec.Proxy.Service.Labels = map[string]string{"": ""}
			with(login)(s, o)
		}, "", `spec.authzConfigRef: MCPAuthzConfig "team" does not exist`},
	} {
		server, opts := shared(t), options
		tc.edit(server, &opts)
		got := render(server, opts)
		if err := got.Problems.Error(); got.Reason != tc.reason || !strings.Contains(err, tc.says) {
			t.Errorf("%s: %s because of %q, want %s with %q", name, err, got.Reason, tc.reason, tc.says)
		}
	}
}

// A server that runs with a configuration does not stop because that is to go.
func TestAServerGoesOnWithAConfigurationThatGoes(t *testing.T) {
	server, opts := shared(t), options
	policies := saying(readers)
	policies.DeletionTimestamp = &metav1.Time{}
	with(login, policies)(server, &opts)
	server.Status.Workload = &v1alpha1.WorkloadStatus{
		Configs: []v1alpha1.WorkloadConfig{{Kind: "MCPAuthzConfig", Name: "team", Hash: "before"}},
	}
	sound(t, server, opts)
}
