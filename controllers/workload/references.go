package workload

import (
	"fmt"
	"strings"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/authz"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// checks states in a run config what the proxy holds calls against. It finds what keeps the
// configurations from being followed to which a server refers, and the reason that a condition
// gives for the first.
func checks(run *runconfig.RunConfig, object kinds.Object, configs frame.Set) (problems []podtemplate.Problem, reason string) {
	refuse := func(field, why, message string, args ...any) {
		problems = append(problems, podtemplate.Problem{Field: field, Message: fmt.Sprintf(message, args...)})
		if reason == "" {
			reason = why
		}
	}
	run.NotEnforced = registry.NotEnforced(object)
	run.Proxy.Authorization = authz.Of(object.GetProxySpec().AuthzConfig)
	for _, config := range configs {
		wrong, field := config.AddTo(&run.Proxy, referrer(object)), "spec."+config.Field
		switch {
		case config.Object == nil:
			refuse(field, reasonOf(config, "NotFound"), "%s %q does not exist in this namespace: create it, or remove the reference", config.Kind, config.Name)
		case config.Deleting() && !rollout.Of(object).Has(config.Kind, config.Name):
			refuse(field, reasonOf(config, "Deleting"), "%s %q is being deleted, and this server does not run with it yet: "+
				"refer to another one, or remove the reference", config.Kind, config.Name)
		case config.Verdict.Err != nil:
			refuse(field, reasonOf(config, "Invalid"), "%s %q: %s", config.Kind, config.Name, config.Verdict.Err)
		}
		for _, problem := range wrong {
			refuse(problem.Field, v1alpha1.ReasonSpecInvalid, "%s", problem.Message)
		}
	}
	return problems, reason
}

func reasonOf(config frame.Bound, what string) string {
	if config.Kind == "MCPOIDCConfig" && what == "Invalid" {
		return v1alpha1.ReasonSpecInvalid
	}
	return strings.TrimPrefix(config.Kind, "MCP") + what
}

func referrer(object kinds.Object) frame.Referrer {
	spec := object.GetProxySpec()
	return frame.Referrer{Spec: spec, URL: URL(OwnerOf(object), spec.Proxy, spec.Path)}
}

// ownHash is rendered anew, since what a configuration says is in the pod template
// too.
func ownHash(object kinds.Object, content runconfig.RunConfig, configs frame.Set, opts podtemplate.Options) string {
	if len(configs) == 0 {
		return ""
	}
	content.Proxy = configs.Own(content.Proxy, referrer(object))
	data, err := RenderProxy(OwnerOf(object), object.GetProxySpec(), content, opts).Content.Encode()
	if err != nil {
		return "" // said better as a problem of the content
	}
	for _, config := range configs {
		data = append(data, "spec."+config.Field+config.Name...)
	}
	return runconfig.HashOf(data)
}
