package conversion

import (
	"cmp"
	"fmt"
	"strconv"
)

// fromTemplate are fields of a pod template that spec says here.
var fromTemplate = []struct{ from, to string }{
	{"serviceAccountName", "spec.serviceAccountName"},
	{"imagePullSecrets", "spec.imagePullSecrets"},
}

// fromContainer are fields of a container that spec says here.
var fromContainer = []string{"command", "args", "env", "envFrom", "volumeMounts", "imagePullPolicy"}

// toolhivePodTemplate divides a pod template into fields of spec, which ours
// refuses in the overlay, and the overlay. ToolHive's container is called mcp.
func toolhivePodTemplate(c *conversion, _ string, value any) string {
	template, isMap := value.(map[string]any)
	if !isMap {
		return "it is no pod template"
	}
	remark := ""
	spec, _ := template["spec"].(map[string]any)
	for _, field := range fromTemplate {
		if v, found := cut(spec, field.from); found {
			asItIs(c, field.to, v)
		}
	}
	if volumes, found := cut(spec, "volumes"); found {
		remark = withoutHostPaths(c, "spec.volumes", volumes)
	}
	containers := []any{}
	for i, one := range items(spec["containers"]) {
		if one["name"] == "mcp" {
			one["name"] = container
			c.hoist(one, fmt.Sprintf("spec.podTemplateSpec.spec.containers[%d].", i))
		}
		if len(one) > 1 {
			containers = append(containers, one)
		}
	}
	delete(spec, "containers")
	if len(containers) > 0 {
		spec["containers"] = containers
	}
	if len(spec) == 0 {
		delete(template, "spec")
	}
	if len(template) > 0 {
		set(c.main, "spec.podTemplate", template)
	}
	return remark
}

// hoist moves what spec says here out of the container's overlay, and what a container of ours cannot say. At is its
// path, with a dot.
func (c *conversion) hoist(one map[string]any, at string) {
	for _, field := range fromContainer {
		if v, found := cut(one, field); found {
			asItIs(c, "spec."+field, v)
		}
	}
	for _, field := range []string{"limits", "requests"} {
		if v, found := cut(one, "resources."+field); found {
			set(c.main, "spec.resources."+field, v)
		}
	}
	if image, found := cut(one, "image"); found && image != c.at("spec.image") {
		c.remark(at+"image", image, "ToolHive runs spec.image; left out")
	}
	if probe, found := cut(one, "readinessProbe"); found {
		c.remark(at+"readinessProbe", probe, ownReadiness)
	}
	if ports, found := cut(one, "ports"); found {
		c.ports(one, items(ports))
	}
}

// ports leaves those of a container out that spec.port says. Probes that name one of them get its number, since the
// port of ours has another name.
func (c *conversion) ports(one map[string]any, ports []map[string]any) {
	var more []any
	for _, port := range ports {
		name := text(port["name"])
		for _, probe := range []string{"livenessProbe", "startupProbe"} {
			for _, way := range []string{"httpGet", "tcpSocket"} {
				if at := probe + "." + way + ".port"; name != "" && says(one, at, name) {
					set(one, at, port["containerPort"])
				}
			}
		}
		if number(port["containerPort"]) == number(c.at("spec.port")) {
			continue
		}
		if name == "mcp" {
			port["name"] = "mcp-2"
		}
		more = append(more, port)
	}
	if len(more) > 0 {
		one["ports"] = more
	}
}

// says reports whether a field is this text.
func says(in map[string]any, path, want string) bool {
	value, _ := get(in, path)
	return value == want
}

// toolhiveResources gives the server what its container had. What spec says ToolHive gives its own proxy.
func toolhiveResources(c *conversion, _ string, value any) string {
	if c.at("spec.resources") != nil {
		set(c.main, "spec.proxy.resources", value)
		return ""
	}
	set(c.main, "spec.resources", value)
	return "ToolHive gives these to its proxy, and none to the server: look at what the server takes (kubectl top pod), " +
		"and write that"
}

// toolhiveAdds are after https://github.com/stacklok/toolhive: pkg/runtime/setup.go, pkg/container/kubernetes and
// cmd/thv-operator/controllers.
func toolhiveAdds() []addition {
	return []addition{
		{
			does: "sets `MCP_TRANSPORT`, and for HTTP `MCP_PORT` and `FASTMCP_PORT`, in the container: import writes them " +
				"into `spec.env`, since servers listen where they say",
			add: toolhiveVariables,
		},
		{
			does: "runs servers as user, group and fsGroup 1000 with a read-only root file system: import writes that into " +
				"`spec.podTemplate`",
			add: toolhiveUser,
		},
		{
			does: "makes a ServiceAccount for a server that names none, whose token is mounted: a comment says which",
			add:  toolhiveAccount,
		},
	}
}

func toolhiveVariables(c *conversion) {
	transport := c.at("spec.transport")
	c.variable("MCP_TRANSPORT", text(transport))
	if transport == "stdio" {
		return
	}
	const fallback = 8080
	port := strconv.FormatInt(cmp.Or(number(c.at("spec.port")), fallback), 10)
	c.variable("MCP_PORT", port)
	c.variable("FASTMCP_PORT", port)
}

func toolhiveUser(c *conversion) {
	const user, pod = int64(1000), "spec.podTemplate.spec.securityContext."
	for _, field := range []string{"runAsUser", "runAsGroup", "fsGroup"} {
		if c.at(pod+field) == nil {
			set(c.main, pod+field, user)
		}
	}
	if one := c.container(); !isSet(one, "securityContext.readOnlyRootFilesystem") {
		set(one, "securityContext.readOnlyRootFilesystem", true)
	}
}

func toolhiveAccount(c *conversion) {
	if c.at("spec.serviceAccountName") == nil {
		c.remarks = append(c.remarks, fmt.Sprintf("spec.serviceAccount -- ToolHive makes the ServiceAccount %s-sa for the "+
			"server: if roles are bound to that, make one of your own, bind them, and name it in spec.serviceAccountName",
			c.source.GetName()))
	}
}
