package mcpserver

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// What is said of a spec by itself, whatever runs.

// mostProblems are as many as a person reads.
const mostProblems = 20

func accepted(server *v1alpha1.MCPServer, want wanted) conditions.Finding {
	if want.renderable() {
		return conditions.True(v1alpha1.ReasonAccepted, "")
	}
	texts := make([]string, 0, len(want.problems))
	for _, p := range want.problems {
		texts = append(texts, p.String())
	}
	if len(texts) > mostProblems {
		texts = append(texts[:mostProblems], "and more: correct these first")
	}
	runs := "Nothing runs before that"
	switch {
	case !want.revision.Valid() || notServed(server, want) != nil:
	case want.stopped:
		runs = "The proxy is stopped until then, because it does not enforce what the spec asks for"
	case want.restsAtZero():
	default:
		runs = "The last accepted content keeps running"
	}
	return conditions.False(cmp.Or(want.reason, v1alpha1.ReasonSpecInvalid), strings.Join(texts, "; ")+". "+runs)
}

// notServed says that no calls are served by intent, and which.
func notServed(server *v1alpha1.MCPServer, want wanted) *conditions.Finding {
	switch {
	case server.Spec.Suspend:
		return new(conditions.False(v1alpha1.ReasonSuspended, "spec.suspend is true: set it to false to start the server again"))
	case backendReplicas(server) == 0 || workload.ProxyReplicas(server, 0) == 0:
		replicas := "spec.proxy.replicas is 0"
		if kinds.Of(server).Backend {
			replicas = "spec.replicas or " + replicas
		}
		return new(conditions.False(v1alpha1.ReasonScaledToZero, replicas+": raise it to start the server again"))
	case len(want.content.NotEnforced) > 0:
		return new(conditions.False(v1alpha1.ReasonNotEnforced, notEnforced(want.content.NotEnforced)))
	}
	return nil
}

func notEnforced(fields []string) string {
	text := "%s is set, and this version does not enforce it: calls are refused until it is removed"
	if len(fields) > 1 {
		text = "%s are set, and this version does not enforce them: calls are refused until they are removed"
	}
	return fmt.Sprintf(text, strings.Join(fields, ", "))
}

// backendExposed says that others than the proxy may call the backend of a server
// whose spec asks the proxy to check calls.
func backendExposed(server *v1alpha1.MCPServer) *conditions.Finding {
	if !kinds.Of(server).Backend || !workload.Guarded(&server.Spec) || workload.BackendIngress(&server.Spec, nil) == v1alpha1.BackendIngressProxyOnly {
		return nil
	}
	return new(conditions.True(v1alpha1.ReasonBackendIngressAny, fmt.Sprintf(
		"spec.network.backendIngress is Any: whoever reaches Service %s or a backend pod calls the server without the proxy's checks; "+
			"remove the field, and Freehold makes a NetworkPolicy that lets only the proxy connect", workload.BackendName(server.Name))))
}
