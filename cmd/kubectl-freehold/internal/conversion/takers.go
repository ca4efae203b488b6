package conversion

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// asItIs sets a field whose type is ours.
func asItIs(c *conversion, to string, value any) string {
	if list, isList := value.([]any); isList {
		add(c.main, to, list...)
		return ""
	}
	set(c.main, to, value)
	return ""
}

// asItem sets a list of one.
func asItem(c *conversion, to string, value any) string {
	add(c.main, to, value)
	return ""
}

// nothing is for a field whose meaning is in other fields.
func nothing(*conversion, string, any) string { return "" }

func words(ours map[string]string, otherwise string) taker {
	return func(c *conversion, to string, value any) string {
		word, known := ours[fmt.Sprint(value)]
		if !known {
			return otherwise
		}
		set(c.main, to, word)
		return ""
	}
}

// withoutHostPaths keeps the volumes that a pod of ours may have.
func withoutHostPaths(c *conversion, to string, value any) string {
	var refused []string
	for _, volume := range items(value) {
		if _, is := volume["hostPath"]; is {
			refused = append(refused, text(volume["name"]))
			continue
		}
		add(c.main, to, volume)
	}
	if len(refused) > 0 {
		return fmt.Sprintf("hostPath is not allowed (%s): write a persistentVolumeClaim, configMap, secret or emptyDir of "+
			"the same name", strings.Join(refused, ", "))
	}
	return ""
}

// variables turns a map of names to values, or to {value, valueFrom}, into env.
func variables(c *conversion, to string, value any) string {
	env, _ := value.(map[string]any)
	for _, name := range sorted(env) {
		item := map[string]any{"name": name}
		if source, isMap := env[name].(map[string]any); isMap {
			for key, v := range source {
				item[key] = v
			}
		} else {
			item["value"] = fmt.Sprint(env[name])
		}
		add(c.main, to, item)
	}
	return ""
}

// secretKeys turns {name, key, targetEnvName} into env.
func secretKeys(c *conversion, to string, value any) string {
	for _, secret := range items(value) {
		name := text(secret["targetEnvName"])
		if name == "" {
			name = text(secret["key"])
		}
		add(c.main, to, map[string]any{"name": name, "valueFrom": map[string]any{
			"secretKeyRef": map[string]any{"name": secret["name"], "key": secret["key"]},
		}})
	}
	return ""
}

// allKeys turns references to Secrets into envFrom.
func allKeys(c *conversion, to string, value any) string {
	for _, ref := range items(value) {
		if ref["name"] != "" {
			add(c.main, to, map[string]any{"secretRef": map[string]any{"name": ref["name"]}})
		}
	}
	return ""
}

// egressTo turns places into a rule that allows connections to them.
func egressTo(c *conversion, to string, value any) string {
	if places, _ := value.([]any); len(places) > 0 {
		add(c.main, to, map[string]any{"to": places})
	}
	return ""
}

// egressPorts narrows the rule of egressTo to ports; without one they are allowed everywhere. Ours have a number each.
func egressPorts(c *conversion, to string, value any) string {
	ports, unnumbered := []any{}, ""
	for _, port := range items(value) {
		if number(port["port"]) == 0 {
			unnumbered = "a port needs a number: write it into spec.network.egress"
			continue
		}
		ports = append(ports, port)
	}
	switch rules, _ := get(c.main, to); {
	case len(items(value)) == 0:
	case len(ports) == 0: // no rule allows all ports
		set(c.main, to, []any{})
	case len(items(rules)) > 0:
		items(rules)[0]["ports"] = ports
	default:
		add(c.main, to, map[string]any{"ports": ports})
	}
	return unnumbered
}

const noConnections = "the NetworkPolicy that Freehold makes enforces the profile none: try whether the server needs " +
	"more"

// permissionProfile turns ToolHive's own profiles into what the backend may connect to.
func permissionProfile(c *conversion, to string, value any) string {
	profile, _ := value.(map[string]any)
	switch kind, name := text(profile["type"]), text(profile["name"]); {
	case kind == "builtin" && name == "none":
		set(c.main, to, []any{})
		return ""
	case kind == "builtin" && name == "network":
		return "it allows all connections, as Freehold does unless the chart's networkDefaults.egress says otherwise"
	}
	return "write the connections that it allows into spec.network.egress"
}

func policies(c *conversion, to string, value any) string {
	list, isList := value.([]any)
	if !isList {
		return "write a list of policies"
	}
	for i, policy := range list {
		add(c.main, to, map[string]any{"name": "policy-" + strconv.Itoa(i+1), "policy": policy})
	}
	return ""
}

// The ports that spec.proxy.port may not have, by apis/v1alpha1.
const (
	lowestProxyPort = 1024
	probePort       = 9440
)

func proxyPort(c *conversion, to string, value any) string {
	port := number(value)
	if port < lowestProxyPort || port == probePort {
		return "the proxy cannot listen there: its port is 1024 or more, and not 9440, where it answers probes; it listens " +
			"on 8000"
	}
	set(c.main, to, port)
	return ""
}

// publicURL sets the URL under which clients reach a server, without its path of MCP.
func publicURL(c *conversion, to string, value any) string {
	path := "/mcp"
	if stated, found := get(c.main, "spec.path"); found {
		path = text(stated)
	}
	set(c.main, to, strings.TrimSuffix(strings.TrimSuffix(text(value), "/"), path))
	return ""
}

// names of the container with the server's image, elsewhere and here.
const container = "server"

// inContainer sets a field of the backend's container by the overlay.
func inContainer(field string) taker {
	return func(c *conversion, _ string, value any) string {
		c.container()[field] = value
		return ""
	}
}

// container is the backend's container in the overlay.
func (c *conversion) container() map[string]any {
	const at = "spec.podTemplate.spec.containers"
	for _, one := range items(c.at(at)) {
		if one["name"] == container {
			return one
		}
	}
	one := map[string]any{"name": container}
	add(c.main, at, one)
	return one
}

// variable sets an environment variable that is not stated.
func (c *conversion) variable(name, value string) {
	if !c.hasVariable(name) {
		add(c.main, "spec.env", map[string]any{"name": name, "value": value})
	}
}

func (c *conversion) hasVariable(name string) bool {
	return slices.ContainsFunc(items(c.at("spec.env")), func(one map[string]any) bool { return one["name"] == name })
}
