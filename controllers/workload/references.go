package workload

import (
	"fmt"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

const (
	fieldLogin    = "spec.oidcConfigRef"
	fieldPolicies = "spec.authzConfigRef"
)

// references finds what keeps the configurations from being followed to which a
// server refers, and the reason that a condition gives for the first.
func references(server *v1alpha1.MCPServer, opts podtemplate.Options) (problems []podtemplate.Problem, reason string) {
	refuse := func(field, why, message string, args ...any) {
		problems = append(problems, podtemplate.Problem{Field: field, Message: fmt.Sprintf(message, args...)})
		if reason == "" {
			reason = why
		}
	}
	runsWith := rollout.OfServer(server).Has
	if ref := server.Spec.AuthzConfigRef; ref != nil {
		switch p := opts.Policies; {
		case p == nil:
			refuse(fieldPolicies, v1alpha1.ReasonAuthzConfigNotFound, missing, "MCPAuthzConfig", ref.Name)
		case p.Deleting && !runsWith("MCPAuthzConfig", ref.Name):
			refuse(fieldPolicies, v1alpha1.ReasonAuthzConfigDeleting, leaving, "MCPAuthzConfig", ref.Name)
		case p.Err != nil:
			refuse(fieldPolicies, v1alpha1.ReasonAuthzConfigInvalid, "MCPAuthzConfig %q: %s", ref.Name, p.Err)
		}
	}
	if ref := server.Spec.OIDCConfigRef; ref != nil {
		switch login := opts.Login; {
		case login == nil:
			refuse(fieldLogin, v1alpha1.ReasonOIDCConfigNotFound, missing, "MCPOIDCConfig", ref.Name)
		case login.DeletionTimestamp != nil && !runsWith("MCPOIDCConfig", ref.Name):
			refuse(fieldLogin, v1alpha1.ReasonOIDCConfigDeleting, leaving, "MCPOIDCConfig", ref.Name)
		case login.Spec.OIDC == nil && login.Spec.Kubernetes == nil:
			refuse(fieldLogin, v1alpha1.ReasonSpecInvalid, "MCPOIDCConfig %q has neither oidc nor kubernetes: write one of them", ref.Name)
		case login.Spec.Kubernetes != nil && len(ref.Scopes) > 0:
			refuse(fieldLogin+".scopes", v1alpha1.ReasonSpecInvalid, "tokens of service accounts have no scopes, so that no call would pass: remove scopes")
		}
	}
	return problems, reason
}

const (
	missing = "%s %q does not exist in this namespace: create it, or remove the reference"
	leaving = "%s %q is being deleted, and this server does not run with it yet: refer to another one, or remove the reference"
)

// ownHash is rendered anew, since what a configuration says is in the pod template
// too.
func ownHash(server *v1alpha1.MCPServer, content runconfig.RunConfig, opts podtemplate.Options) string {
	spec := &server.Spec
	if spec.OIDCConfigRef == nil && spec.AuthzConfigRef == nil {
		return ""
	}
	data, err := RenderProxy(OwnerOf(server), spec.Proxy, runspec.Own(content, spec), opts).Content.Encode()
	if err != nil {
		return "" // said better as a problem of the content
	}
	if ref := spec.OIDCConfigRef; ref != nil {
		data = append(data, fieldLogin+ref.Name...)
	}
	if ref := spec.AuthzConfigRef; ref != nil {
		data = append(data, fieldPolicies+ref.Name...)
	}
	return runconfig.HashOf(data)
}
