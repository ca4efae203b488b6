package input

// loginConfig is an MCPOIDCConfig.
func loginConfig(spec string) string {
	return whole(version, "MCPOIDCConfig", "{name: login}", "spec: "+spec)
}

var loginRows = []subject{
	{"MCPOIDCConfig", []row{
		{
			mistake: "neither a provider nor the cluster", whole: loginConfig("{}"), field: "spec",
			says: "Invalid value: exactly one of oidc and kubernetes must be set: write oidc for the tokens of a provider, " +
				"kubernetes for those of the cluster's service accounts",
		},
		{
			mistake: "both", whole: loginConfig("{oidc: {issuer: https://a.example}, kubernetes: {serviceAccounts: " +
				"[{namespace: a, name: b}]}}"), field: "spec",
			says: "Invalid value: exactly one of oidc and kubernetes must be set: write oidc for the tokens of a provider, " +
				"kubernetes for those of the cluster's service accounts",
		},
		{
			mistake: "an issuer over http", whole: loginConfig("{oidc: {issuer: http://a.example}}"), field: "spec.oidc",
			says: "Invalid value: issuer and jwksURL must be https: write https://, or set allowInsecureIssuer to true for a " +
				"test",
		},
		{
			mistake: "keys over http", whole: loginConfig("{oidc: {issuer: https://a.example, jwksURL: http://a.example/keys}}"),
			field: "spec.oidc", says: "Invalid value: issuer and jwksURL must be https: write https://, or set " +
				"allowInsecureIssuer to true for a test",
		},
		{
			mistake: "an issuer that is no URL", whole: loginConfig("{oidc: {issuer: login.example.com}}"),
			field: "spec.oidc.issuer", says: "Invalid value: \"login.example.com\": issuer must be an absolute URL without " +
				"query and fragment: write for example https://login.example.com/realms/team",
		},
		{
			mistake: "an issuer with a query", whole: loginConfig("{oidc: {issuer: 'https://a.example/?tenant=b'}}"),
			field: "spec.oidc.issuer", says: "Invalid value: \"https://a.example/?tenant=b\": issuer must be an absolute URL " +
				"without query and fragment: write for example https://login.example.com/realms/team",
		},
		{
			mistake: "keys that are nowhere", whole: loginConfig("{oidc: {issuer: https://a.example, jwksURL: /keys}}"),
			field: "spec.oidc.jwksURL", says: "Invalid value: \"/keys\": jwksURL must be an absolute URL: write for example " +
				"https://login.example.com/keys",
		},
		{
			mistake: "a symmetric algorithm", whole: loginConfig("{oidc: {issuer: https://a.example, algorithms: [HS256]}}"),
			field: "spec.oidc.algorithms[0]",
			says: "Unsupported value: \"HS256\": supported values: \"RS256\", \"RS384\", \"RS512\", \"ES256\", \"ES384\", " +
				"\"ES512\", \"PS256\", \"PS384\", \"PS512\", \"EdDSA\"",
		},
		{
			mistake: "a clock that is an hour off",
			whole:   loginConfig("{oidc: {issuer: https://a.example}, clockSkewSeconds: 3600}"), field: "spec.clockSkewSeconds",
			says: "Invalid value: 3600: write how many seconds clocks may differ, 0 to 300",
		},
		{
			mistake: "no service account", whole: loginConfig("{kubernetes: {serviceAccounts: []}}"),
			field: "spec.kubernetes.serviceAccounts",
			says:  "Invalid value: 0: spec.kubernetes.serviceAccounts in body should have at least 1 items",
		},
		{
			mistake: "every service account of a namespace",
			whole:   loginConfig("{kubernetes: {serviceAccounts: [{namespace: a, name: '*'}]}}"),
			field:   "spec.kubernetes.serviceAccounts[0].name",
			says: "Invalid value: \"*\": name must be the name of a ServiceAccount, of lower-case letters, digits, - and .: " +
				"write for example agent",
		},
		{
			mistake: "certificates in place of their ConfigMap",
			whole:   loginConfig("{oidc: {issuer: https://a.example, caBundleRef: '-----BEGIN CERTIFICATE-----'}}"),
			field:   "spec.oidc.caBundleRef",
			says:    "Invalid value: \"string\": spec.oidc.caBundleRef in body must be of type object: \"string\"",
			applied: ".spec.oidc.caBundleRef: expected map, got &{-----BEGIN CERTIFICATE-----}",
		},
		{
			mistake: "a path in place of a key",
			whole:   loginConfig("{oidc: {issuer: https://a.example, caBundleRef: {name: a, key: /etc/ssl/ca.crt}}}"),
			field:   "spec.oidc.caBundleRef.key",
			says: "Invalid value: \"/etc/ssl/ca.crt\": key must be a key of the ConfigMap, of letters, digits, -, _ and .: " +
				"write for example ca.crt",
		},
		{
			mistake: "questions over http",
			whole: loginConfig("{oidc: {issuer: https://a.example, introspection: {url: http://a.example/ask, clientID: a, " +
				"clientSecretRef: {name: a, key: b}}}}"), field: "spec.oidc",
			says: "Invalid value: introspection.url must be https: write https://, or set allowInsecureIssuer to true for a " +
				"test",
		},
		{
			mistake: "a path to ask at", whole: loginConfig(
				"{oidc: {issuer: https://a.example, introspection: {url: /ask, clientID: a, clientSecretRef: {name: a, key: b}}}}"),
			field: "spec.oidc.introspection.url",
			says: "Invalid value: \"/ask\": url must be an absolute URL: write for example " +
				"https://login.example.com/introspect",
		},
		{
			mistake: "a password in place of its Secret",
			whole: loginConfig("{oidc: {issuer: https://a.example, introspection: {url: 'https://a.example/ask', clientID: a, " +
				"clientSecret: b}}}"), says: "unknown field \"spec.oidc.introspection.clientSecret\"",
			applied: ".spec.oidc.introspection.clientSecret: field not declared in schema",
		},
		{
			mistake: "a Secret without a key",
			whole: loginConfig("{oidc: {issuer: https://a.example, introspection: {url: 'https://a.example/ask', clientID: a, " +
				"clientSecretRef: {name: a}}}}"), field: "spec.oidc.introspection.clientSecretRef.key", says: "Required value",
		},
		{
			mistake: "a path in place of the Secret's key",
			whole: loginConfig("{oidc: {issuer: https://a.example, introspection: {url: 'https://a.example/ask', clientID: a, " +
				"clientSecretRef: {name: a, key: a/b}}}}"), field: "spec.oidc.introspection.clientSecretRef.key",
			says: "Invalid value: \"a/b\": key must be a key of the Secret, of letters, digits, -, _ and .: write for example " +
				"client-secret",
		},
		{
			mistake: "a typo", whole: loginConfig("{oidc: {issuer: https://a.example, audience: b}}"),
			says: "unknown field \"spec.oidc.audience\"", applied: ".spec.oidc.audience: field not declared in schema",
		},
	}},
}
