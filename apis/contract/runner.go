package contract

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The managers of the runner in the proxy pod.
const (
	// RunnerBackend builds the backend StatefulSet and its Services.
	RunnerBackend ownership.Manager = "runner.freehold.dev/backend"
	// RunnerReport states what the runner sees at run time.
	RunnerReport ownership.Manager = "runner.freehold.dev/report"
)

// IdentityRunner is the runner of one server, where SERVER stands for the name of
// the MCPServer.
const IdentityRunner = "SERVER-runner"

// runner are the grants of the runner in a server's proxy pod.
func runner() []ownership.Grant {
	build := func(object ownership.Object, why string, own ...string) ownership.Grant {
		g := child(IdentityRunner, RunnerBackend, object, "SERVER-backend", why, slices.Concat(revision, own)...)
		g.Versioned = true
		return g
	}
	backend := build(StatefulSet, "runs the user's image",
		"spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.updateStrategy",
		"spec.revisionHistoryLimit", "spec.template")
	backend.Baseline = true
	service := build(Service, "is where the proxy calls, and names each backend pod",
		"spec.ports", "spec.selector", "spec.type", "spec.clusterIP", "spec.publishNotReadyAddresses")
	service.Names = append(service.Names, "SERVER-backend-headless")
	return []ownership.Grant{backend, service, {
		Manager: RunnerReport, Identity: IdentityRunner, Object: MCPServerSub, Names: []string{"SERVER"},
		Mode: ownership.Exclusive, Why: "reports what runs",
		Fields: ownership.Paths("status.runtime", "status.conditions[type=BackendApplied]", "status.conditions[type=BackendAnswers]"),
	}}
}

// runnerRights are what a runner reads: its backend, and its server.
func runnerRights() []ownership.Right {
	right := func(object ownership.Object, names ...string) ownership.Right {
		return ownership.Right{
			Identity: IdentityRunner, Group: object.Group, Resource: object.Resource(), Names: names,
			Verbs: []string{"get", "list", "watch"}, Why: "watches it, and reads it where a cache may be behind",
		}
	}
	return []ownership.Right{
		right(StatefulSet, "SERVER-backend"),
		right(Service, "SERVER-backend", "SERVER-backend-headless"),
		right(MCPServer, "SERVER"),
	}
}
