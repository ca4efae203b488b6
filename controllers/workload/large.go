package workload

import (
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// tooLarge is the problem of a spec that is larger than what is rendered.
func tooLarge(object kinds.Object) *podtemplate.Problem {
	if err := runspec.TooLarge(specOf(object)); err != nil {
		return &podtemplate.Problem{Field: "spec", Message: err.Error()}
	}
	return nil
}

// onlyChecks is the content of an object that asks the proxy for the same checks of calls and
// says nothing else: what runs may go on if it makes them.
func onlyChecks(object kinds.Object, configs frame.Set) runconfig.RunConfig {
	small := kinds.Of(object).New()
	small.SetNamespace(object.GetNamespace())
	small.SetName(object.GetName())
	small.SetUID(object.GetUID())
	run := runspec.For(small)
	run.NotEnforced = registry.NotEnforced(object)
	if object.GetProxySpec().AuthzConfig != nil {
		run.Proxy.Authorization = &runconfig.Authorization{}
	}
	run.Proxy = configs.Own(run.Proxy, referrer(object))
	return run
}
