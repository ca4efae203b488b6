package podtemplate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// values are the known values of each enum of the API, by Go type and field. The CustomResourceDefinition of a later
// release has others, which must not be ignored: a protection would be off. A test compares the table with the
// CustomResourceDefinitions.
var values = map[string][]string{
	"EgressPort.protocol":           {"TCP", "UDP", "SCTP"},
	"MCPRemoteProxySpec.transport":  {string(v1alpha1.TransportStreamableHTTP), string(v1alpha1.TransportSSE)},
	"MCPServerSpec.imagePullPolicy": {"Always", "IfNotPresent", "Never"},
	"MCPServerSpec.transport": {
		string(v1alpha1.TransportStreamableHTTP), string(v1alpha1.TransportSSE),
		string(v1alpha1.TransportStdio),
	},
	"NetworkSpec.backendIngress": {string(v1alpha1.BackendIngressProxyOnly), string(v1alpha1.BackendIngressAny)},
	"RolloutSpec.hold": {
		string(v1alpha1.HoldNever), string(v1alpha1.HoldLostTools), string(v1alpha1.HoldAlways),
	},
	"RolloutSpec.strategy":             {string(v1alpha1.StrategyReplace), string(v1alpha1.StrategySuccessive)},
	"ProxyService.type":                {"ClusterIP", "NodePort", "LoadBalancer"},
	"ProxySpec.audit":                  {string(v1alpha1.AuditEnabled), string(v1alpha1.AuditDisabled)},
	"ProxySpec.hostHeader":             {string(v1alpha1.HostLocalhost), string(v1alpha1.HostClient)},
	"StdioSpec.process":                {string(v1alpha1.StdioPerSession), string(v1alpha1.StdioShared)},
	"VolumeClaimRetention.whenDeleted": {"Retain", "Delete"},
}

// UnknownValues finds unknown enum values anywhere below a spec. Nothing of such a spec is rendered, and the running
// content stays.
func UnknownValues(field string, spec any) []Problem {
	var problems []Problem
	walk(field, reflect.ValueOf(spec), func(at spot) {
		if at.in == nil || at.value.Kind() != reflect.String {
			return
		}
		known, is := values[at.in.Name()+"."+at.name]
		if value := at.value.String(); is && !slices.Contains(known, value) {
			problems = append(problems, Problem{at.path, fmt.Sprintf(
				"%q is of a later release, and not known to this operator: upgrade the operator, or write %s", value,
				strings.Join(known, " or "))})
		}
	})
	return problems
}
