package conversion

// kmcpDefaultPort is the default of kmcp's schema for spec.deployment.port.
const kmcpDefaultPort = 3000

func kmcp() []kind {
	return []kind{{
		product: "kmcp", group: "kagent.dev", versions: []string{"v1alpha1"}, kind: "MCPServer", to: "MCPServer",
		service: kmcpService,
		rows: []row{
			{
				from: "spec.transportType", to: "spec.transport", absent: "stdio",
				take: words(map[string]string{"http": "streamable-http", "stdio": "stdio"}, "write streamable-http, sse or stdio"),
			},
			{from: "spec.stdioTransport", take: nothing},
			{from: "spec.httpTransport.targetPort", to: "spec.port"},
			{from: "spec.httpTransport.path", to: "spec.path"},
			{from: "spec.httpTransport.tls", note: "the proxy calls the image without TLS: let the image listen without it"},
			{from: "spec.deployment.image", to: "spec.image", absent: "", take: kmcpImage},
			{from: "spec.deployment.imagePullPolicy", to: "spec.imagePullPolicy"},
			{from: "spec.deployment.imagePullSecrets", to: "spec.imagePullSecrets"},
			{
				from: "spec.deployment.port", absent: int64(kmcpDefaultPort), take: kmcpPort,
				to: "spec.port, 3000 if it is left out, or spec.proxy.port with stdio or with a targetPort",
			},
			{from: "spec.deployment.cmd", to: "spec.command", take: asItem},
			{from: "spec.deployment.args", to: "spec.args"},
			{from: "spec.deployment.env", to: "spec.env", take: variables},
			{from: "spec.deployment.secretRefs", to: "spec.envFrom", take: allKeys},
			{from: "spec.deployment.configMapRefs", to: "spec.volumes and spec.volumeMounts", take: kmcpConfigMaps},
			{from: "spec.deployment.volumes", to: "spec.volumes", take: withoutHostPaths},
			{from: "spec.deployment.volumeMounts", to: "spec.volumeMounts"},
			{from: "spec.deployment.serviceAccountName", to: "spec.serviceAccountName"},
			{
				from: "spec.deployment.serviceAccount",
				note: "Freehold makes no ServiceAccount for the image: make one with these labels and annotations, and name it " +
					"in spec.serviceAccountName",
			},
			{from: "spec.deployment.replicas", to: "spec.replicas", note: "leave it out if an autoscaler sets it"},
			{from: "spec.deployment.resources.limits", to: "spec.resources.limits"},
			{from: "spec.deployment.resources.requests", to: "spec.resources.requests"},
			{from: "spec.deployment.resources.claims", note: "MCPServer has no such field"},
			{from: "spec.deployment.sidecars", to: "spec.podTemplate.spec.containers"},
			{
				from: "spec.deployment.securityContext", to: "spec.podTemplate.spec.containers[name=server].securityContext",
				take: inContainer("securityContext"),
			},
			{from: "spec.deployment.podSecurityContext", to: "spec.podTemplate.spec.securityContext"},
			{from: "spec.deployment.labels", to: "spec.podTemplate.metadata.labels"},
			{from: "spec.deployment.annotations", to: "spec.podTemplate.metadata.annotations"},
			{from: "spec.deployment.tolerations", to: "spec.podTemplate.spec.tolerations"},
			{from: "spec.deployment.affinity", to: "spec.podTemplate.spec.affinity"},
			{from: "spec.deployment.nodeSelector", to: "spec.podTemplate.spec.nodeSelector"},
			{
				from: "spec.deployment.initContainer",
				note: "Freehold's own bridge serves stdio, and its image is that of the chart",
			},
			{from: "spec.timeout", note: "clients set their own; the proxy ends no call that is in progress"},
			{from: "spec.authn", guards: true, note: "write an MCPOIDCConfig, and spec.oidcConfigRef"},
			{from: "spec.clientAuthn", guards: true, note: "write an MCPOIDCConfig, and spec.oidcConfigRef"},
			{from: "spec.authz.server", guards: true, note: "write an MCPOIDCConfig, and spec.oidcConfigRef"},
			{from: "spec.authz", guards: true, note: "write Cedar policies in spec.authzConfig instead of CEL rules"},
			{from: "spec.routeFilter.cors.allowOrigins", to: "spec.proxy.allowedOrigins"},
			{from: "spec.routeFilter", note: "the proxy answers CORS requests of spec.proxy.allowedOrigins with the headers " +
				"that MCP needs"},
		},
	}}
}

// kmcpImage sets the image. Without one kmcp chooses it by the command.
func kmcpImage(c *conversion, to string, value any) string {
	image := text(value)
	if image == "" {
		cmd, _ := get(c.rest, "spec.deployment.cmd")
		image = map[string]string{"uvx": "ghcr.io/astral-sh/uv:debian", "npx": "node:24-alpine3.21"}[text(cmd)]
	}
	if image == "" {
		return "spec.image is required: write the image of the server"
	}
	set(c.main, to, image)
	if text(value) == "" {
		return "kmcp chooses " + image +
			" for this command: an image with the server installed starts faster and needs no network"
	}
	return ""
}

// kmcpPort is where clients call with stdio, and where the image listens
// otherwise. kmcp's default counts for the image only: the proxy keeps ours.
func kmcpPort(c *conversion, _ string, value any) string {
	transport, _ := get(c.main, "spec.transport")
	if _, known := get(c.main, "spec.port"); transport != "stdio" && !known {
		set(c.main, "spec.port", value)
		return ""
	}
	if _, stated := get(c.source.Object, "spec.deployment.port"); !stated {
		return ""
	}
	return proxyPort(c, "spec.proxy.port", value)
}

func kmcpConfigMaps(c *conversion, _ string, value any) string {
	for _, ref := range items(value) {
		name := "cm-" + text(ref["name"])
		add(c.main, "spec.volumes", map[string]any{"name": name, "configMap": map[string]any{"name": ref["name"]}})
		add(c.main, "spec.volumeMounts",
			map[string]any{"name": name, "mountPath": "/configmaps/" + text(ref["name"]), "readOnly": true})
	}
	return ""
}
