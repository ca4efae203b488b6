package conversion

import "slices"

const (
	toolhiveGroup = "toolhive.stacklok.dev"
	notEnforced   = "this version of Freehold does not enforce it: the server stays not ready, with reason NotEnforced, " +
		"until the field is removed"
	telemetry    = "the proxy exports no traces; Prometheus reads its metrics at port 9440"
	inlineGroups = "spec.authzConfig.groupClaimName"
	wholeRelease = "proxies have the pull secrets of the chart's value runner.imagePullSecrets"
)

var toolhiveVersions = []string{"v1alpha1", "v1beta1"}

func toolhive() []kind {
	server := slices.Concat([]row{
		{from: "spec.image", to: "spec.image"},
		{from: "spec.transport", to: "spec.transport", absent: "stdio", take: toolhiveTransport},
		{
			from: "spec.proxyMode", granted: "streamable-http",
			note: "clients of HTTP+SSE need transport stdio or sse; they use the same URL",
		},
		{from: "spec.mcpPort", to: "spec.port"},
		{from: "spec.targetPort", to: "spec.port"},
		{from: "spec.args", to: "spec.args"},
		{from: "spec.env", to: "spec.env"},
		{from: "spec.secrets", to: "spec.env", take: secretKeys},
		{from: "spec.volumes", note: "directories of a node are not allowed: write spec.volumes with a " +
			"persistentVolumeClaim, configMap, secret or emptyDir, and spec.volumeMounts"},
		{from: "spec.serviceAccount", to: "spec.serviceAccountName"},
		{from: "spec.backendReplicas", to: "spec.replicas", note: "leave it out if an autoscaler sets it"},
		{from: "spec.permissionProfile", to: "spec.network.egress", take: permissionProfile, note: noConnections},
		{
			from: "spec.podTemplateSpec", to: "spec.podTemplate, and the fields of spec with the same meaning",
			take: toolhivePodTemplate,
		},
		{
			from: "spec.resources",
			to:   "spec.resources, or spec.proxy.resources where the pod template has those of the container",
			take: toolhiveResources,
		},
		{
			from: "spec.tools", guards: true,
			note: "write Cedar policies in spec.authzConfig that permit call_tool for these tools",
		},
		{
			from: "spec.webhookConfigRef", guards: true,
			note: "Freehold calls no webhooks: write Cedar policies in spec.authzConfig",
		},
		{from: "spec.rateLimiting", note: "Freehold does not limit rates: let the Ingress or Gateway in front do it"},
		{from: "spec.toolConfigRef.name", to: "spec.toolConfigRef.name", note: notEnforced},
		{from: "spec.externalAuthConfigRef.name", to: "spec.externalAuthConfigRef.name", note: notEnforced},
	}, toolhiveProxy())
	return []kind{
		{
			product: "ToolHive", group: toolhiveGroup, versions: toolhiveVersions, kind: "MCPServer", to: "MCPServer",
			rows: server, service: toolhiveService, adds: toolhiveAdds(),
		},
		{
			product: "ToolHive", group: toolhiveGroup, versions: toolhiveVersions, kind: "MCPRemoteProxy", to: "MCPRemoteProxy",
			rows: slices.Concat(toolhiveRemote(), toolhiveProxy()), service: toolhiveService,
		},
		{
			product: "ToolHive", group: toolhiveGroup, versions: toolhiveVersions, kind: "MCPServerEntry", to: "MCPRemoteProxy",
			rows: slices.Concat(toolhiveRemote(), toolhiveEntry()),
		},
		toolhiveOIDC(),
		toolhiveAuthz(),
		{
			product: "ToolHive", group: toolhiveGroup, versions: toolhiveVersions, kind: "MCPGroup", to: "MCPGroup",
			rows: []row{{from: "spec.description", to: "spec.description"}},
		},
		none("MCPToolConfig", "spec.authzConfig of the server can say which tools may be called"),
		none("MCPExternalAuthConfig", "give the image its credentials in spec.env, from a Secret"),
		none("MCPTelemetryConfig", telemetry),
		none("MCPWebhookConfig", "write Cedar policies in spec.authzConfig"),
		none("MCPRegistry", "Git holds the list of servers"),
		none("EmbeddingServer", "run it as a Deployment"),
		none("VirtualMCPServer", "clients connect to each server"),
		none("VirtualMCPCompositeToolDefinition", "clients call the tools themselves"),
	}
}

func none(name, instead string) kind {
	return kind{product: "ToolHive", group: toolhiveGroup, versions: toolhiveVersions, kind: name, note: instead}
}

// toolhiveProxy are the rows of the proxy, which servers and remote servers share.
func toolhiveProxy() []row {
	return []row{
		{from: "spec.groupRef", to: "spec.groupRef.name", take: groupName},
		{from: "spec.proxyPort", to: "spec.proxy.port", take: proxyPort},
		{from: "spec.port", to: "spec.proxy.port", take: proxyPort},
		{from: "spec.replicas", to: "spec.proxy.replicas"},
		{from: "spec.trustProxyHeaders", to: "spec.proxy.trustForwardedHeaders"},
		{from: "spec.endpointPrefix", note: "write the URL that clients use, with the prefix, into spec.proxy.publicURL"},
		{
			from: "spec.audit.enabled", to: "spec.proxy.audit",
			take: words(map[string]string{"true": "Enabled", "false": "Disabled"}, "write Enabled or Disabled"),
		},
		{from: "spec.resourceOverrides.proxyService.labels", to: "spec.proxy.service.labels"},
		{from: "spec.resourceOverrides.proxyService.annotations", to: "spec.proxy.service.annotations"},
		{
			from: "spec.resourceOverrides.proxyDeployment.podTemplateMetadataOverrides.labels",
			to:   "spec.proxy.podTemplate.metadata.labels",
		},
		{
			from: "spec.resourceOverrides.proxyDeployment.podTemplateMetadataOverrides.annotations",
			to:   "spec.proxy.podTemplate.metadata.annotations",
		},
		{from: "spec.resourceOverrides.proxyDeployment.imagePullSecrets", note: wholeRelease},
		{from: "spec.resourceOverrides.proxyDeployment.env", note: "these are variables of ToolHive's own program"},
		{
			from: "spec.resourceOverrides",
			note: "labels and annotations of the Deployment itself can be applied to it under a field manager of your own",
		},
		{
			from: "spec.authServerRef", guards: true,
			note: "Freehold has no authorization server: write an MCPOIDCConfig for yours, and spec.oidcConfigRef",
		},
		{from: "spec.oidcConfigRef.name", to: "spec.oidcConfigRef.name"},
		{from: "spec.oidcConfigRef.audience", to: "spec.oidcConfigRef.audiences", take: asItem},
		{
			from: "spec.oidcConfigRef.scopes", to: "spec.oidcConfigRef.scopes",
			note: "ToolHive only advertises scopes, Freehold also refuses tokens without them",
		},
		{from: "spec.oidcConfigRef.resourceUrl", to: "spec.proxy.publicURL", take: publicURL},
		{from: "spec.oidcConfigRef", guards: true, note: "write the name of the MCPOIDCConfig into spec.oidcConfigRef.name"},
		{from: "spec.oidcConfig.resourceUrl", to: "spec.proxy.publicURL", take: publicURL},
		{from: "spec.oidcConfig", to: "an MCPOIDCConfig, and spec.oidcConfigRef", guards: true, take: inlineOIDC},
		{from: "spec.authzConfigRef.name", to: "spec.authzConfigRef.name"},
		{
			from: "spec.authzConfigRef", guards: true,
			note: "write the name of the MCPAuthzConfig into spec.authzConfigRef.name",
		},
		{from: "spec.authzConfig.inline.policies", to: "spec.authzConfig.policies", take: policies},
		{from: "spec.authzConfig.inline.entitiesJson", to: "spec.authzConfig.entities", take: entities},
		{from: "spec.authzConfig.inline.primaryUpstreamProvider", note: "it has no effect in ToolHive either"},
		{from: inlineGroups, granted: defaultGroups, to: groupsOfLogin, take: groupsClaim(inlineGroups)},
		{
			from: "spec.authzConfig.roleClaimName", guards: true,
			note: "Freehold reads groups from one claim, oidc.groupsClaim of the MCPOIDCConfig; policies can read the claim " +
				"of roles as principal.claim_NAME",
		},
		{
			from: "spec.authzConfig.groupEntityType", guards: true, granted: "THVGroup",
			note: "groups are Group::\"NAME\" and THVGroup::\"NAME\": write one of the two in the policies",
		},
		{from: "spec.authzConfig", to: "nothing, if inline has policies; else a comment, and the server is suspended until " +
			"there are some", guards: true, take: policiesElsewhere},
		{from: "spec.telemetryConfigRef", note: telemetry},
		{from: "spec.telemetry", note: telemetry},
		{from: "spec.sessionAffinity", note: "no field is needed: the proxy finds the backend of a session"},
		{from: "spec.sessionStorage", note: "no store is needed: a session's id says which backend has it"},
		{from: "spec.proxyReadTimeout", note: "the proxy's times are not configurable"},
		{from: "spec.proxyWriteTimeout", note: "the proxy's times are not configurable"},
	}
}

// toolhiveTransport sets the transport, and says what a server of sse needs.
func toolhiveTransport(c *conversion, to string, value any) string {
	set(c.main, to, value)
	if value == "sse" {
		return "write into spec.path where the image answers, often /sse"
	}
	return ""
}

// policiesElsewhere has what is left of a server's policies: nothing but their type, if they were read.
func policiesElsewhere(c *conversion, _ string, value any) string {
	left, _ := value.(map[string]any)
	if _, read := get(c.main, "spec.authzConfig.policies"); read && len(left) == 1 && left["type"] == "inline" {
		return ""
	}
	return "write policies into spec.authzConfig, as those of its ConfigMap, or into an MCPAuthzConfig that " +
		"spec.authzConfigRef names"
}

// groupName reads a reference of v1alpha1, which is a text, and of v1beta1.
func groupName(c *conversion, to string, value any) string {
	name := text(value)
	if ref, isMap := value.(map[string]any); isMap {
		name = text(ref["name"])
	}
	set(c.main, to, name)
	return ""
}

func entities(c *conversion, to string, value any) string {
	if value != "[]" {
		set(c.main, to, value)
	}
	return ""
}
