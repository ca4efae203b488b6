package workload

import (
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
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

// onlyChecks is the content of a server that asks the proxy for the same checks of calls and
// says nothing else: what runs may go on if it makes them.
func onlyChecks(server *v1alpha1.MCPServer, configs frame.Set) runconfig.RunConfig {
	run := runspec.For(&v1alpha1.MCPServer{TypeMeta: server.TypeMeta, ObjectMeta: server.ObjectMeta})
	run.NotEnforced = registry.NotEnforced(&server.Spec)
	if server.Spec.AuthzConfig != nil {
		run.Proxy.Authorization = &runconfig.Authorization{}
	}
	run.Proxy = configs.Own(run.Proxy, referrer(server))
	return run
}
