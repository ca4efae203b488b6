package workload

import (
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// tooLarge is the problem of a spec that is larger than what is rendered.
func tooLarge(server *v1alpha1.MCPServer, opts podtemplate.Options) *podtemplate.Problem {
	var spec any = &server.Spec
	if opts.Remote != nil {
		spec = opts.Remote
	}
	if err := runspec.TooLarge(spec); err != nil {
		return &podtemplate.Problem{Field: "spec", Message: err.Error()}
	}
	return nil
}

// onlyChecks is a server that asks the proxy for the same checks of calls and says nothing
// else: what runs may go on if it makes them.
func onlyChecks(server *v1alpha1.MCPServer) *v1alpha1.MCPServer {
	small, spec := &v1alpha1.MCPServer{TypeMeta: server.TypeMeta, ObjectMeta: server.ObjectMeta}, &server.Spec
	small.Spec = v1alpha1.MCPServerSpec{
		ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{OIDCConfigRef: spec.OIDCConfigRef, AuthzConfigRef: spec.AuthzConfigRef},
		ToolConfigRef:     spec.ToolConfigRef, ExternalAuthConfigRef: spec.ExternalAuthConfigRef,
	}
	if spec.AuthzConfig != nil {
		small.Spec.AuthzConfig = &v1alpha1.AuthzConfig{}
	}
	return small
}
