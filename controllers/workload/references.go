package workload

import (
	"cmp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/authz"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// checks adds the proxy's checks of calls to a run config. It returns what is wrong with the referenced
// configurations, and the condition's reason for the first.
func checks(
	run *runconfig.RunConfig, object kinds.Object, configs frame.Set,
) (problems []podtemplate.Problem, reason string) {
	refuse := func(field, why, message string) {
		problems = append(problems, podtemplate.Problem{Field: field, Message: message})
		reason = cmp.Or(reason, why)
	}
	run.NotEnforced = registry.NotEnforced(object)
	run.Proxy.Authorization = authz.Of(object.GetProxySpec().AuthzConfig)
	for _, config := range configs {
		if why, message := config.Problem(rollout.Of(object).Has); why != "" {
			refuse("spec."+config.Field, why, message)
		}
		for _, problem := range config.AddTo(&run.Proxy, referrer(object)) {
			refuse(problem.Field, v1alpha1.ReasonSpecInvalid, problem.Message)
		}
	}
	return problems, reason
}

func referrer(object kinds.Object) frame.Referrer {
	spec := object.GetProxySpec()
	return frame.Referrer{Spec: spec, URL: URL(OwnerOf(object), spec.Proxy, spec.Path)}
}

// ownHash needs a rendering of its own, because the pod template contains configurations too.
func ownHash(object kinds.Object, content runconfig.RunConfig, configs frame.Set, release podtemplate.Release) string {
	if len(configs) == 0 {
		return ""
	}
	content.Proxy = configs.Own(content.Proxy, referrer(object))
	data, err := RenderProxy(OwnerOf(object), object.GetProxySpec(), content, release).Content.Encode()
	if err != nil {
		return "" // said better as a problem of the content
	}
	for _, config := range configs {
		data = append(data, "spec."+config.Field+config.Name...)
	}
	return runconfig.HashOf(data)
}
