package ownership

import "slices"

// rights are what the identities may do beside their writes.
func rights() []Right {
	all := slices.Concat(processRights(), runnerRights())
	for _, identity := range []string{IdentityMCPServer, IdentityRBAC, IdentityRunner} {
		right := Right{
			Identity: identity, Group: MCPServer.Group, Resource: "mcpservers/finalizers", Verbs: []string{"update"},
			Why: "some clusters ask for it of whoever makes objects that hold the deletion of their owner up",
		}
		if identity == IdentityRunner {
			right.Names = []string{"SERVER"}
		}
		all = append(all, right)
	}
	// What Removals has not got anyway.
	for _, child := range []struct {
		identity string
		object   Object
		names    []string
	}{
		{IdentityMCPServer, ServiceAccount, nil},
		{IdentityMCPServer, Deployment, nil},
		{IdentityMCPServer, Service, nil},
		{IdentityRBAC, Role, nil},
		{IdentityRunner, StatefulSet, []string{"SERVER-backend"}},
		{IdentityRunner, Service, []string{"SERVER-backend", "SERVER-backend-headless"}},
	} {
		all = append(all, Right{
			Identity: child.identity, Group: child.object.Group, Resource: child.object.Resource(), Names: child.names, Verbs: []string{"delete"},
			Why: "some clusters ask for it of whoever becomes the owner of what another hand made; nothing deletes it",
		})
	}
	return all
}

// processRights are those of the operator's process, which reads for all its
// controllers.
func processRights() []Right {
	right := func(object Object, why string, verbs ...string) Right {
		return Right{Identity: IdentityOperator, Group: object.Group, Resource: object.Resource(), Verbs: verbs, Why: why}
	}
	var all []Right
	for _, object := range []Object{MCPServer, Deployment, StatefulSet, Service, ConfigMap, ServiceAccount, Role, RoleBinding} {
		all = append(all, right(object, "is watched, and read where a cache cannot know", "get", "list", "watch"))
	}
	lease := object("coordination.k8s.io", "v1", "Lease", "")
	leads := right(lease, "elects one operator", "get", "update")
	leads.Names = []string{LeaseName}
	acts := right(ServiceAccount, "writes as its controllers", "impersonate")
	acts.Names = Controllers()
	return append(all,
		right(object("", "v1", "Pod", ""), "tells why a server is not ready", "list", "watch"),
		right(object("", "v1", "Event", ""), "tells why a server is not ready", "list", "watch"),
		right(object("events.k8s.io", "v1", "Event", ""), "reports what happened to a server", "create", "patch"),
		leads, right(lease, "makes that Lease; RBAC cannot bind a create to a name", "create"),
		acts)
}

// runnerRights are what a runner reads: its backend, and its server.
func runnerRights() []Right {
	right := func(object Object, names ...string) Right {
		return Right{
			Identity: IdentityRunner, Group: object.Group, Resource: object.Resource(), Names: names,
			Verbs: []string{"get", "list", "watch"}, Why: "is watched, and read where a cache cannot know",
		}
	}
	return []Right{
		right(StatefulSet, "SERVER-backend"),
		right(Service, "SERVER-backend", "SERVER-backend-headless"),
		right(MCPServer, "SERVER"),
	}
}
