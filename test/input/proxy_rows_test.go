package input

import "strings"

// proxyRows are about the proxy, who may call, and what else a server refers to.
var proxyRows = []subject{
	{"spec.proxy", []row{
		{
			mistake: "a port that needs root", spec: "proxy: {port: 80}", field: "spec.proxy.port",
			says: "Invalid value: 80: write a port that needs no root, 1024 to 65535",
		},
		{
			mistake: "the port of the probes", spec: "proxy: {port: 9440}", field: "spec.proxy.port",
			says: "Invalid value: 9440: port 9440 is where the proxy answers probes: choose another port",
		},
		{
			mistake: "a port out of range", spec: "proxy: {port: 70000}", field: "spec.proxy.port",
			says: "Invalid value: 70000: write a port that needs no root, 1024 to 65535",
		},
		{
			mistake: "a port as text", spec: `proxy: {port: "8000"}`, field: "spec.proxy.port",
			says:    "Invalid value: \"string\": spec.proxy.port in body must be of type integer: \"string\"",
			applied: ".spec.proxy.port: expected numeric (int or float), got string",
		},
		{
			mistake: "fewer than no replicas", spec: "proxy: {replicas: -1}", field: "spec.proxy.replicas",
			says: "Invalid value: -1: write how many pods there are to be, 0 to 100",
		},
		{
			mistake: "too many replicas", spec: "proxy: {replicas: 101}", field: "spec.proxy.replicas",
			says: "Invalid value: 101: write how many pods there are to be, 0 to 100",
		},
		{
			mistake: "a typo", spec: "proxy: {replica: 2}", says: "unknown field \"spec.proxy.replica\"",
			applied: ".spec.proxy.replica: field not declared in schema",
		},
		{
			mistake: "a switch instead of the proxy", spec: "proxy: true", field: "spec.proxy",
			says:    "Invalid value: \"boolean\": spec.proxy in body must be of type object: \"boolean\"",
			applied: ".spec.proxy: expected map, got &{true}",
		},
		{
			mistake: "a list", spec: "proxy: [{port: 8000}]", says: "unknown field \"spec.proxy[0].port\"",
			applied: ".spec.proxy: expected map, got &{[map[port:8000]]}",
		},
		{
			mistake: "a text as switch", spec: `proxy: {trustForwardedHeaders: "yes"}`,
			field:   "spec.proxy.trustForwardedHeaders",
			says:    "Invalid value: \"string\": spec.proxy.trustForwardedHeaders in body must be of type boolean: \"string\"",
			applied: ".spec.proxy.trustForwardedHeaders: expected boolean, got &{yes}",
		},
	}},
	{"spec.proxy.probe", []row{
		{
			mistake: "an answer that may take too long", spec: "proxy: {probe: {timeoutSeconds: 15}}",
			field: "spec.proxy.probe.timeoutSeconds",
			says:  "Invalid value: 15: write how many seconds an answer may take, 1 to 9",
		},
	}},
	{"spec.proxy.httpRoute", []row{
		{
			mistake: "a wildcard as host name", spec: `proxy: {httpRoute: {parentRefs: [{name: a}], hostnames: ["*.example.com"]}}`,
			field: "spec.proxy.httpRoute.hostnames",
			says: "Invalid value: hostnames are host names in lower case without scheme, port, path or wildcard: write for " +
				"example mcp.example.com",
		},
		{
			mistake: "a URL as host name",
			spec:    `proxy: {httpRoute: {parentRefs: [{name: a}], hostnames: ["https://mcp.example.com"]}}`,
			field:   "spec.proxy.httpRoute.hostnames",
			says: "Invalid value: hostnames are host names in lower case without scheme, port, path or wildcard: write for " +
				"example mcp.example.com",
		},
		{
			mistake: "a path that ends with /",
			spec:    `proxy: {httpRoute: {parentRefs: [{name: a}], hostnames: [a.example.com], path: /echo/}}`,
			field:   "spec.proxy.httpRoute.path",
			says: "Invalid value: \"/echo/\": path must begin with /, not end with one, and hold only letters, digits and " +
				". _ ~ / -: write for example /echo",
		},
	}},
	{"spec.proxy.publicURL and spec.proxy.allowedOrigins", []row{
		{
			mistake: "no scheme", spec: "proxy: {publicURL: mcp.example.com}", field: "spec.proxy.publicURL",
			says: "Invalid value: \"mcp.example.com\": publicURL must be an absolute URL: write for example " +
				"https://mcp.example.com/echo",
		},
		{
			mistake: "another scheme", spec: "proxy: {publicURL: \"ftp://mcp.example.com\"}", field: "spec.proxy.publicURL",
			says: "Invalid value: \"ftp://mcp.example.com\": publicURL must be an absolute URL: write for example " +
				"https://mcp.example.com/echo",
		},
		{
			mistake: "template marks", spec: `proxy: {publicURL: "https://{{ .Values.host }}/mcp"}`,
			field: "spec.proxy.publicURL",
			says: "Invalid value: \"https://{{ .Values.host }}/mcp\": publicURL must be an absolute URL: write for example " +
				"https://mcp.example.com/echo",
		},
		{
			mistake: "no host, as a template that rendered nothing leaves it", spec: `proxy: {publicURL: "https:///mcp"}`,
			field: "spec.proxy.publicURL",
			says: "Invalid value: \"https:///mcp\": publicURL must be an absolute URL: write for example " +
				"https://mcp.example.com/echo",
		},
		{
			mistake: "a line break at the end", spec: "proxy:\n  publicURL: |\n    https://mcp.example.com",
			field: "spec.proxy.publicURL",
			says: "Invalid value: \"https://mcp.example.com\\n\": publicURL must be an absolute URL: write for example " +
				"https://mcp.example.com/echo",
		},
		{
			mistake: "too long", spec: "proxy: {publicURL: \"https://a.example.com/" + strings.Repeat("a", 1024) + `"}`,
			show: "proxy: {publicURL: (1045 letters)}", field: "spec.proxy.publicURL",
			says: "Too long: may not be more than 1024 bytes",
		},
		{
			mistake: "one origin, and not a list", spec: "proxy: {allowedOrigins: \"https://a.example.com\"}",
			field:   "spec.proxy.allowedOrigins",
			says:    "Invalid value: \"string\": spec.proxy.allowedOrigins in body must be of type array: \"string\"",
			applied: ".spec.proxy.allowedOrigins: expected list, got &{https://a.example.com}",
		},
		{
			mistake: "an origin twice", spec: "proxy: {allowedOrigins: [\"https://a.example.com\", \"https://a.example.com\"]}",
			field: "spec.proxy.allowedOrigins[1]", says: "Duplicate value: \"https://a.example.com\"",
			applied: ".spec.proxy.allowedOrigins: duplicate entries for key [=\"https://a.example.com\"]",
		},
		{
			mistake: "any origin", spec: `proxy: {allowedOrigins: ["*"]}`, field: "spec.proxy.allowedOrigins",
			says: "Invalid value: allowedOrigins are compared with what browsers send, byte for byte: write each in lower " +
				"case, with its scheme and without path or wildcard, for example https://app.example.com",
		},
		{
			mistake: "any host of a domain", spec: `proxy: {allowedOrigins: ["https://*.example.com"]}`,
			field: "spec.proxy.allowedOrigins",
			says: "Invalid value: allowedOrigins are compared with what browsers send, byte for byte: write each in lower " +
				"case, with its scheme and without path or wildcard, for example https://app.example.com",
		},
		{
			mistake: "an origin with a path", spec: `proxy: {allowedOrigins: ["https://a.example.com/"]}`,
			field: "spec.proxy.allowedOrigins",
			says: "Invalid value: allowedOrigins are compared with what browsers send, byte for byte: write each in lower " +
				"case, with its scheme and without path or wildcard, for example https://app.example.com",
		},
		{
			mistake: "an origin in upper case", spec: `proxy: {allowedOrigins: ["https://A.example.com"]}`,
			field: "spec.proxy.allowedOrigins",
			says: "Invalid value: allowedOrigins are compared with what browsers send, byte for byte: write each in lower " +
				"case, with its scheme and without path or wildcard, for example https://app.example.com",
		},
		{
			mistake: "an origin without a scheme", spec: "proxy: {allowedOrigins: [a.example.com]}",
			field: "spec.proxy.allowedOrigins",
			says: "Invalid value: allowedOrigins are compared with what browsers send, byte for byte: write each in lower " +
				"case, with its scheme and without path or wildcard, for example https://app.example.com",
		},
		{
			mistake: "too many origins", spec: "proxy: {allowedOrigins: " + items(65, "\"https://a%d\"") + "}",
			show: "proxy: {allowedOrigins: (65 items)}", field: "spec.proxy.allowedOrigins",
			says: "Too many: 65: must have at most 64 items",
		},
	}},
	{"spec.proxy.hostHeader", []row{
		{
			mistake: "a host", spec: "proxy: {hostHeader: mcp.example.com}", field: "spec.proxy.hostHeader",
			says: "Unsupported value: \"mcp.example.com\": supported values: \"Localhost\", \"Client\"",
		},
	}},
	{"spec.proxy.audit", []row{
		{
			mistake: "a switch", spec: "proxy: {audit: false}", field: "spec.proxy.audit",
			says:    "Invalid value: \"boolean\": spec.proxy.audit in body must be of type string: \"boolean\"",
			applied: ".spec.proxy.audit: expected string, got &value.valueUnstructured{Value:false}",
		},
		{
			mistake: "lower case", spec: "proxy: {audit: disabled}", field: "spec.proxy.audit",
			says: "Unsupported value: \"disabled\": supported values: \"Enabled\", \"Disabled\"",
		},
	}},
	{"spec.proxy.terminationGracePeriodSeconds", []row{
		{
			mistake: "too short to drain", spec: "proxy: {terminationGracePeriodSeconds: 5}",
			field: "spec.proxy.terminationGracePeriodSeconds",
			says:  "Invalid value: 5: write how many seconds calls get to end, 15 to 3600",
		},
		{
			mistake: "two hours", spec: "proxy: {terminationGracePeriodSeconds: 7200}",
			field: "spec.proxy.terminationGracePeriodSeconds",
			says:  "Invalid value: 7200: write how many seconds calls get to end, 15 to 3600",
		},
		{
			mistake: "a duration", spec: `proxy: {terminationGracePeriodSeconds: "1m"}`,
			field: "spec.proxy.terminationGracePeriodSeconds",
			says: "Invalid value: \"string\": spec.proxy.terminationGracePeriodSeconds in body must be of type integer: " +
				"\"string\"",
			applied: ".spec.proxy.terminationGracePeriodSeconds: expected numeric (int or float), got string",
		},
	}},
	{"spec.proxy.service", []row{
		{
			mistake: "a type that is not offered", spec: "proxy: {service: {type: ExternalName}}",
			field: "spec.proxy.service.type",
			says:  "Unsupported value: \"ExternalName\": supported values: \"ClusterIP\", \"NodePort\", \"LoadBalancer\"",
		},
		{
			mistake: "a type in lower case", spec: "proxy: {service: {type: nodeport}}", field: "spec.proxy.service.type",
			says: "Unsupported value: \"nodeport\": supported values: \"ClusterIP\", \"NodePort\", \"LoadBalancer\"",
		},
		{
			mistake: "a number as label", spec: "proxy: {service: {labels: {version: 1}}}",
			field:   "spec.proxy.service.labels.version",
			says:    "Invalid value: \"integer\": spec.proxy.service.labels.version in body must be of type string: \"integer\"",
			applied: ".spec.proxy.service.labels.version: expected string, got &value.valueUnstructured{Value:1}",
		},
		{
			mistake: "a switch as annotation", spec: "proxy: {service: {annotations: {internal: true}}}",
			field: "spec.proxy.service.annotations.internal",
			says: "Invalid value: \"boolean\": spec.proxy.service.annotations.internal in body must be of type string: " +
				"\"boolean\"",
			applied: ".spec.proxy.service.annotations.internal: expected string, got &value.valueUnstructured{Value:true}",
		},
		{
			mistake: "a list of labels", spec: "proxy: {service: {labels: [{a: b}]}}",
			says:    "unknown field \"spec.proxy.service.labels[0].a\"",
			applied: ".spec.proxy.service.labels: expected map, got &{[map[a:b]]}",
		},
		{
			mistake: "too many labels", spec: "proxy: {service: {labels: {" + strings.Trim(items(65, "a%d: b"), "[]") + "}}}",
			show: "proxy: {service: {labels: (65 entries)}}", field: "spec.proxy.service.labels",
			says: "Too many: 65: must have at most 64 items",
		},
		{
			mistake: "a port", spec: "proxy: {service: {port: 80}}", says: "unknown field \"spec.proxy.service.port\"",
			applied: ".spec.proxy.service.port: field not declared in schema",
		},
	}},
	{"spec.podTemplate, spec.proxy.podTemplate", []row{
		{
			mistake: "a text", spec: "podTemplate: |\n  spec: {hostNetwork: true}", field: "spec.podTemplate",
			says:    "Invalid value: \"string\": spec.podTemplate in body must be of type object: \"string\"",
			applied: ".spec.podTemplate: expected map, got &{spec: {hostNetwork: true} }",
		},
		{
			mistake: "a list", spec: "podTemplate: [{spec: {}}]", field: "spec.podTemplate",
			says:    "Invalid value: \"array\": spec.podTemplate in body must be of type object: \"array\"",
			applied: ".spec.podTemplate: expected map, got &{[map[spec:map[]]]}",
		},
		{
			mistake: "a text for the proxy", spec: "proxy: {podTemplate: a}", field: "spec.proxy.podTemplate",
			says:    "Invalid value: \"string\": spec.proxy.podTemplate in body must be of type object: \"string\"",
			applied: ".spec.proxy.podTemplate: expected map, got &{a}",
		},
	}},
	{"The references and spec.authzConfig", []row{
		{
			mistake: "a name, and not an object", spec: "groupRef: team", field: "spec.groupRef",
			says:    "Invalid value: \"string\": spec.groupRef in body must be of type object: \"string\"",
			applied: ".spec.groupRef: expected map, got &{team}",
		},
		{mistake: "no name", spec: "oidcConfigRef: {}", field: "spec.oidcConfigRef.name", says: "Required value"},
		{
			mistake: "an empty name", spec: `groupRef: {name: ""}`, field: "spec.groupRef.name",
			says: "Invalid value: \"\": name must be the name of an object of this namespace, of lower-case letters, digits, " +
				"- and .: write for example team-a",
		},
		{
			mistake: "a name in upper case", spec: "groupRef: {name: Team}", field: "spec.groupRef.name",
			says: "Invalid value: \"Team\": name must be the name of an object of this namespace, of lower-case letters, " +
				"digits, - and .: write for example team-a",
		},
		{
			mistake: "template marks", spec: `toolConfigRef: {name: "{{ .Values.tools }}"}`, field: "spec.toolConfigRef.name",
			says: "Invalid value: \"{{ .Values.tools }}\": name must be the name of an object of this namespace, of " +
				"lower-case letters, digits, - and .: write for example team-a",
		},
		{
			mistake: "a namespace", spec: "externalAuthConfigRef: {name: a, namespace: b}",
			says:    "unknown field \"spec.externalAuthConfigRef.namespace\"",
			applied: ".spec.externalAuthConfigRef.namespace: field not declared in schema",
		},
		{
			mistake: "too long", spec: "authzConfigRef: {name: " + strings.Repeat("a", 254) + "}",
			show: "authzConfigRef: {name: (254 letters)}", field: "spec.authzConfigRef.name",
			says: "Too long: may not be more than 253 bytes",
		},
		{
			mistake: "both kinds of authorization",
			spec:    "authzConfig: {policies: [{name: a, policy: permit}]}\nauthzConfigRef: {name: a}", field: "spec",
			says: "Invalid value: authzConfig and authzConfigRef exclude each other: keep one of them",
		},
		{
			mistake: "an authorization of nothing", spec: "authzConfig: {policies: []}", field: "spec.authzConfig.policies",
			says: "Invalid value: 0: spec.authzConfig.policies in body should have at least 1 items",
		},
		{
			mistake: "an authorization without policies", spec: `authzConfig: {entities: "[]"}`,
			field: "spec.authzConfig.policies", says: "Required value",
		},
		{
			mistake: "one policy, and not a list", spec: "authzConfig: {policies: permit}", field: "spec.authzConfig.policies",
			says:    "Invalid value: \"string\": spec.authzConfig.policies in body must be of type array: \"string\"",
			applied: ".spec.authzConfig.policies: expected list, got &{permit}",
		},
		{
			mistake: "an empty policy", spec: `authzConfig: {policies: [{name: a, policy: ""}]}`,
			field: "spec.authzConfig.policies[0].policy",
			says:  "Invalid value: \"\": spec.authzConfig.policies[0].policy in body should be at least 1 chars long",
		},
		{
			mistake: "a name in upper case", spec: `authzConfig: {policies: [{name: A, policy: a}]}`,
			field: "spec.authzConfig.policies[0].name",
			says: "Invalid value: \"A\": the name of a policy holds only lower-case letters, digits, - and .: write for " +
				"example team-a.read",
		},
		{
			mistake: "a policy that is too long",
			spec:    "authzConfig: {policies: [{name: a, policy: " + strings.Repeat("a", 16385) + "}]}",
			show:    "authzConfig: {policies: [{name: a, policy: (16385 letters)}]}",
			field:   "spec.authzConfig.policies[0].policy",
			says:    "Too long: may not be more than 16384 bytes",
		},
		{
			mistake: "too many policies", spec: "authzConfig: {policies: " + items(257, "{name: a%d, policy: a}") + "}",
			show: "authzConfig: {policies: (257 items)}", field: "spec.authzConfig.policies",
			says: "Too many: 257: must have at most 256 items",
		},
		{
			mistake: "entities that are not text",
			spec:    "authzConfig: {policies: [{name: a, policy: permit}], entities: [{uid: a}]}",
			says:    "unknown field \"spec.authzConfig.entities[0].uid\"",
			applied: ".spec.authzConfig.entities: expected string, got &value.valueUnstructured{Value:[]interface " +
				"{}{map[string]interface {}{\"uid\":\"a\"}}}",
		},
	}},
	{"spec.network", []row{
		{
			mistake: "a word, and not an object", spec: "network: ProxyOnly", field: "spec.network",
			says:    "Invalid value: \"string\": spec.network in body must be of type object: \"string\"",
			applied: ".spec.network: expected map, got &{ProxyOnly}",
		},
		{
			mistake: "a word of its own", spec: "network: {backendIngress: None}", field: "spec.network.backendIngress",
			says: "Unsupported value: \"None\": supported values: \"ProxyOnly\", \"Any\"",
		},
		{
			mistake: "rules of one's own", spec: "network: {ingress: [{}]}", says: "unknown field \"spec.network.ingress\"",
			applied: ".spec.network.ingress: field not declared in schema",
		},
	}},
}
