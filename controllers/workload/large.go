package workload

import (
	"fmt"
	"maps"
	"slices"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// LargestOverlay bounds a spec's overlay of pods in bytes: rendering and comparing takes a hundred times the memory
// of its text, and a second for a megabyte.
const LargestOverlay = 64 << 10

func tooLarge(object kinds.Object) *podtemplate.Problem {
	if err := runspec.TooLarge(specOf(object)); err != nil {
		return &podtemplate.Problem{Field: "spec", Message: err.Error()}
	}
	overlays := map[string][]byte{}
	if proxy := object.GetProxySpec().Proxy; proxy != nil {
		overlays["spec.proxy.podTemplate"] = runspec.Raw(proxy.PodTemplate)
	}
	if server, ok := object.(*v1alpha1.MCPServer); ok {
		overlays["spec.podTemplate"] = runspec.Raw(server.Spec.PodTemplate)
	}
	for _, field := range slices.Sorted(maps.Keys(overlays)) {
		if len(overlays[field]) > LargestOverlay {
			return &podtemplate.Problem{Field: field, Message: fmt.Sprintf(
				"is longer than %d bytes: keep long values in a ConfigMap or Secret that envFrom or volumes name", LargestOverlay)}
		}
	}
	return nil
}

// onlyChecks is the content of an object that asks the proxy for the same checks of calls and nothing else: running
// content may continue if it makes them.
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
