package contract

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The managers of the runner in the proxy pod.
const (
	// RunnerBackend builds the backend StatefulSet and its Services.
	RunnerBackend ownership.Manager = "runner.freehold.dev/backend"
	// RunnerReport states what a server's runner observes, RunnerRemoteReport what that of an MCPRemoteProxy does.
	RunnerReport       ownership.Manager = "runner.freehold.dev/report"
	RunnerRemoteReport ownership.Manager = "runner.freehold.dev/remote"
)

// IdentityRunner is the runner of the MCPServer SERVER, IdentityRemoteRunner that of the MCPRemoteProxy REMOTE.
const (
	IdentityRunner       = "SERVER-runner"
	IdentityRemoteRunner = "REMOTE.remote-runner"
)

// backendSets are the StatefulSets of a server's backend, one for each of its two slots (ADR 0075), and backendServices
// its Services.
func backendSets() []string { return []string{"SERVER-backend", "SERVER-slot2"} }

func backendServices() []string {
	return []string{"SERVER-backend", "SERVER-backend-headless", "SERVER-slot2", "SERVER-slot2-headless"}
}

func runner() []ownership.Grant {
	build := func(object ownership.Object, why string, own ...string) ownership.Grant {
		g := MCPServers().child(IdentityRunner, RunnerBackend, object, "SERVER-backend", why, slices.Concat(revision, own)...)
		g.Names, g.Versioned = backendSets(), true
		return g
	}
	backend := build(StatefulSet, "runs the user's image",
		"spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.updateStrategy",
		"spec.revisionHistoryLimit", "spec.template",
		"spec.volumeClaimTemplates", "spec.persistentVolumeClaimRetentionPolicy.whenDeleted")
	backend.Baseline = true
	service := build(Service, "is where the proxy calls, and names each backend pod",
		"spec.ports", "spec.selector", "spec.type", "spec.clusterIP", "spec.publishNotReadyAddresses")
	service.Names = backendServices()
	return []ownership.Grant{backend, service}
}

func runnerRights() []ownership.Right {
	right := func(identity string, object ownership.Object, names ...string) ownership.Right {
		return ownership.Right{
			Identity: identity, Group: object.Group, Resource: object.Resource(), Names: names,
			Verbs: []string{"get", "list", "watch"}, Why: "watches it, and reads it where a cache may be behind",
		}
	}
	return []ownership.Right{
		right(IdentityRunner, StatefulSet, backendSets()...),
		right(IdentityRunner, Service, backendServices()...),
		right(IdentityRunner, MCPServer, "SERVER"),
		{
			Identity: IdentityRunner, Group: ControllerRevision.Group, Resource: ControllerRevision.Resource(),
			Names: []string{"SERVER-content-*"}, Verbs: []string{"get"},
			Why: "makes content of the backend again that is not its own, while the status names it",
		},
		right(IdentityRemoteRunner, MCPRemoteProxy, "REMOTE"),
	}
}
