package policy

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// remoteRights are rows for the kind MCPRemoteProxy.
func remoteRights() []right {
	status := contract.MCPRemoteProxy
	status.Subresource = "status"
	return []right{
		{
			contract.MCPRemoteProxyFinalizer, contract.MCPRemoteProxy, "echo",
			"metadata: {finalizers: [freehold.dev/mcpremoteproxy]}", note, ".metadata.annotations",
		},
		{
			contract.MCPRemoteProxyWorkload, status, "echo", "status: {workload: {generation: 1, hash: abc}}",
			"status: {url: http://a}", ".status.url",
		},
		// Before the address, so that nobody owns what the row adds.
		{
			contract.RunnerRemoteReport, status, "echo", "status: {runtime: {serverUID: $uid, generation: 1}}",
			"status: {url: http://c}", ".status.url",
		},
		{
			contract.MCPRemoteProxyConditions, status, "echo",
			`status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`,
			"status: {url: http://a}", ".status.url",
		},
		{
			contract.MCPRemoteProxyAddress, status, "echo", "status: {url: http://b}",
			`status: {conditions: [{type: Other, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`, ".status.conditions",
		},
		{
			contract.MCPRemoteProxyChildren, contract.ServiceAccount, "echo.remote-runner",
			labelled + "automountServiceAccountToken: false", note, noteSaid,
		},
		{
			contract.RBACRemote, contract.Role, "echo.remote-runner",
			labelled + `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`, note, noteSaid,
		},
		{
			contract.RBACRemote, contract.RoleBinding, "echo.remote-runner",
			labelled + "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: echo.remote-runner}", note, noteSaid,
		},
		{
			contract.MCPRemoteProxyChildren, contract.ConfigMap, "echo.remote-run-1-abc", numbered + "data: {a: b}", note,
			noteSaid,
		},
		{
			contract.MCPRemoteProxyChildren, contract.Deployment, "echo-proxy-remote",
			numbered + "spec: {replicas: 0, " + pods + "}", "spec: {paused: true}", ".spec.paused",
		},
		{
			contract.MCPRemoteProxyChildren, contract.Service, "echo-proxy-remote",
			numbered + "spec: {ports: [{port: 80, protocol: TCP}]}", "spec: {sessionAffinity: ClientIP}",
			".spec.sessionAffinity",
		},
		{
			contract.MCPRemoteProxyChildren, contract.HTTPRoute, "echo-proxy-remote",
			labelled + "spec: {hostnames: [mcp.example.com]}", note, noteSaid,
		},
	}
}

// makeOwners makes the server and the remote proxy that the rows speak of, and
// returns the uid of each by the kind of the object.
func makeOwners(env *kit.Env) map[string]string {
	env.Helper()
	server := env.Apply("kubectl", kit.Server("echo", "i", ""))
	remote := env.Apply("kubectl",
		"{apiVersion: freehold.dev/v1alpha1, kind: MCPRemoteProxy, metadata: {name: echo}, spec: {url: "+
			"'https://a.example.com'}}")
	return map[string]string{
		contract.MCPServer.Kind:      string(server.GetUID()),
		contract.MCPRemoteProxy.Kind: string(remote.GetUID()),
	}
}

// runner reports whether a row is a runner's.
func (r right) runner(t *testing.T) bool { return isRunner(r.grant(t).Identity) }

func isRunner(identity string) bool {
	return identity == contract.IdentityRunner || identity == contract.IdentityRemoteRunner
}

// writer is the client of whose the row is.
func (s placed) writer(t *testing.T) client.Client {
	t.Helper()
	identity := s.grant(t).Identity
	if isRunner(identity) {
		return as(t, s.namespace, accountOf(identity))
	}
	return as(t, kit.SystemNamespace, identity)
}

// accountOf is an identity's ServiceAccount where the objects are called echo.
func accountOf(identity string) string {
	return strings.NewReplacer("SERVER", "echo", "REMOTE", "echo").Replace(identity)
}

// Neither kind's controller writes the other's children, though they have one name.
func TestTwoKindsOfOneNameDoNotWriteEachOther(t *testing.T) {
	env := kit.NewEnv(t, plane)
	makeOwners(env)
	for _, r := range rights {
		theirs := map[ownership.Manager]ownership.Manager{
			contract.MCPServerChildren:      contract.MCPRemoteProxyChildren,
			contract.MCPRemoteProxyChildren: contract.MCPServerChildren,
			contract.RBACChildren:           contract.RBACRemote, contract.RBACRemote: contract.RBACChildren,
		}[r.manager]
		if theirs == "" {
			continue
		}
		s := placed{right: r, namespace: env.Namespace}
		c := as(t, kit.SystemNamespace, freehold.Identity(theirs))
		err := s.apply(t.Context(), c, string(theirs), true)
		refused(t, err, "field manager "+string(theirs)+" has no grant on ", s.name)
	}
}
