package conversion

func toolhiveOIDC() kind {
	return kind{
		product: "ToolHive", group: toolhiveGroup, versions: toolhiveVersions, kind: "MCPOIDCConfig", to: "MCPOIDCConfig",
		rows: append([]row{{from: "spec.type", take: nothing}},
			append(issuerRows("spec.inline", "spec.oidc"),
				accountRows("spec.kubernetesServiceAccount", "spec.kubernetes")...)...),
	}
}

// issuerRows are those of a provider, in a kind of its own and in v1alpha1 also in the server.
func issuerRows(from, to string) []row {
	return []row{
		{from: from + ".issuer", to: to + ".issuer", take: issuer},
		{from: from + ".jwksUrl", to: to + ".jwksURL"},
		{from: from + ".introspectionUrl", to: to + ".introspection.url"},
		{from: from + ".clientId", to: to + ".introspection.clientID", take: withIntrospection},
		{from: from + ".clientSecretRef", to: to + ".introspection.clientSecretRef", take: withIntrospection},
		{
			from: from + ".clientSecret", secret: true,
			note: "a secret in the spec: put it into a Secret, and name that in oidc.introspection.clientSecretRef",
		},
		{from: from + ".caBundleRef.configMapRef.name", to: to + ".caBundleRef.name"},
		{from: from + ".caBundleRef.configMapRef.key", to: to + ".caBundleRef.key"},
		{
			from: from + ".caBundleRef.configMapRef.optional",
			note: "a proxy does not start without the certificates that are named",
		},
		{from: from + ".thvCABundlePath", note: "put the certificates into a ConfigMap, and name that in oidc.caBundleRef"},
		{from: from + ".jwksAuthTokenPath", note: "keys are fetched without a token"},
		{from: from + ".jwksAllowPrivateIP", granted: false, note: "private addresses are always allowed"},
		{from: from + ".protectedResourceAllowPrivateIP", granted: false, note: "private addresses are always allowed"},
		{from: from + ".insecureAllowHTTP", to: to + ".allowInsecureIssuer"},
	}
}

// issuer sets whose tokens are accepted. ToolHive looks for groups in the claim groups unless it is told another.
func issuer(c *conversion, to string, value any) string {
	set(c.main, to, value)
	set(c.main, "spec.oidc.groupsClaim", "groups")
	return "oidc.groupsClaim is where ToolHive looks for groups first; it also looks in other claims, as roles and " +
		"cognito:groups, Freehold in one"
}

// withIntrospection sets a field that ours has for introspection only.
func withIntrospection(c *conversion, to string, value any) string {
	if _, asked := get(c.main, "spec.oidc.introspection.url"); !asked {
		return "it is needed for introspection only, and there is no introspection URL"
	}
	set(c.main, to, value)
	return ""
}

func accountRows(from, to string) []row {
	return []row{
		{from: from + ".serviceAccount", to: to + ".serviceAccounts", take: account},
		{from: from + ".namespace", take: accountNamespace},
		{
			from: from + ".issuer", granted: "https://kubernetes.default.svc",
			note: "the issuer is the cluster's own, found by the proxy",
		},
		{from: from + ".jwksUrl", note: "the keys are the cluster's own, found by the proxy"},
		{from: from + ".introspectionUrl", note: "tokens are checked by the cluster's keys"},
		{
			from: from + ".useClusterAuth", granted: true,
			note: "the proxy always asks the API server as its own service account",
		},
		{from: from, guards: true, note: "name the service accounts whose tokens are accepted in " +
			"spec.kubernetes.serviceAccounts"},
	}
}

func account(c *conversion, to string, value any) string {
	add(c.main, to, map[string]any{"name": value, "namespace": c.source.GetNamespace()})
	return ""
}

// accountNamespace corrects the namespace of the account before.
func accountNamespace(c *conversion, _ string, value any) string {
	accounts, _ := get(c.main, "spec.kubernetes.serviceAccounts")
	for _, one := range items(accounts) {
		one["namespace"] = value
		return ""
	}
	return "name the service accounts whose tokens are accepted in kubernetes.serviceAccounts"
}

// inlineOIDC makes an MCPOIDCConfig of what v1alpha1 says in the server.
func inlineOIDC(c *conversion, _ string, value any) string {
	config, isMap := value.(map[string]any)
	if !isMap {
		return "write an MCPOIDCConfig, and spec.oidcConfigRef"
	}
	name := c.source.GetName() + "-login"
	inner := &conversion{
		kind: kind{to: "MCPOIDCConfig"}, source: c.source,
		rest: map[string]any{"spec": map[string]any{"oidcConfig": config}}, main: object(c.source, "MCPOIDCConfig"),
	}
	set(inner.main, "metadata.name", name)
	inner.kind.rows = append(issuerRows("spec.oidcConfig.inline", "spec.oidc"),
		append(accountRows("spec.oidcConfig.kubernetes", "spec.kubernetes"),
			row{from: "spec.oidcConfig.type", take: nothing},
			row{from: "spec.oidcConfig.configMap", note: "write an MCPOIDCConfig with what this ConfigMap says"})...)
	audience, stated := cut(config, "inline.audience")
	if !stated {
		audience, stated = cut(config, "kubernetes.audience")
	}
	inner.fields("spec.oidcConfig")
	c.remarks, c.lost, c.unknown = append(c.remarks, inner.remarks...), append(c.lost, inner.lost...),
		append(c.unknown, inner.unknown...)
	if spec, _ := get(inner.main, "spec"); len(spec.(map[string]any)) == 0 {
		return "write an MCPOIDCConfig, and spec.oidcConfigRef"
	}
	c.more = append(c.more, inner.main)
	set(c.main, "spec.oidcConfigRef.name", name)
	if stated {
		add(c.main, "spec.oidcConfigRef.audiences", audience)
	}
	return ""
}

// groupsClaim notes where policies look for groups: logins say that here.
func groupsClaim(path string) taker {
	return func(c *conversion, _ string, value any) string {
		c.groups = groups{claim: text(value), path: path}
		return ""
	}
}

// groupsOfLogin says where the claim of groups goes.
const groupsOfLogin = "oidc.groupsClaim of the server's MCPOIDCConfig; without one here, the server is suspended"

func toolhiveAuthz() kind {
	const claim, cedar = "spec.config.group_claim_name", "only Cedar policies can be enforced: write them in spec.policies"
	return kind{
		product: "ToolHive", group: toolhiveGroup, versions: toolhiveVersions, kind: "MCPAuthzConfig", to: "MCPAuthzConfig",
		rows: []row{
			{from: "spec.type", guards: true, granted: "cedarv1", note: cedar},
			{from: "spec.config.policies", to: "spec.policies", take: policies},
			{from: "spec.config.entities_json", to: "spec.entities", take: entities},
			{
				from: "spec.config.primary_upstream_provider", guards: true,
				note: "Freehold reads the claims of the token that the caller sends",
			},
			{from: claim, granted: defaultGroups, to: groupsOfLogin, take: groupsClaim(claim)},
			{from: "spec.config.role_claim_name", guards: true, note: "policies can read the claim as principal.claim_NAME"},
			{
				from: "spec.config.group_entity_type", guards: true, granted: "THVGroup",
				note: `groups are Group::"NAME" and THVGroup::"NAME": write one of the two in the policies`,
			},
			{from: "spec.config", guards: true, note: cedar},
		},
	}
}
