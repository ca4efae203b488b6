package input

import "strings"

// serveRows are about how calls come in, and how much there is of everything.
var serveRows = []subject{
	{"spec.transport", []row{
		{
			mistake: "none that MCP has", spec: "transport: websocket", field: "spec.transport",
			says: "Unsupported value: \"websocket\": supported values: \"streamable-http\", \"sse\", \"stdio\"",
		},
		{
			mistake: "upper case", spec: "transport: SSE", field: "spec.transport",
			says: "Unsupported value: \"SSE\": supported values: \"streamable-http\", \"sse\", \"stdio\"",
		},
		{
			mistake: "empty, as a template that rendered nothing leaves it", spec: `transport: ""`, field: "spec.transport",
			says: "Unsupported value: \"\": supported values: \"streamable-http\", \"sse\", \"stdio\"",
		},
		{
			mistake: "stdio without a command", spec: "transport: stdio", field: "spec",
			says: "Invalid value: transport stdio needs command: write the program that speaks MCP on its standard input and " +
				"output, for example command: [\"/server\"]",
		},
		{
			mistake: "stdio with an empty command", spec: "transport: stdio\ncommand: []", field: "spec",
			says: "Invalid value: transport stdio needs command: write the program that speaks MCP on its standard input and " +
				"output, for example command: [\"/server\"]",
		},
		{
			mistake: "sse at the bridge's port", spec: "transport: sse\nport: 9441", field: "spec",
			says: "Invalid value: port 9441 is where Freehold's bridge listens beside a server of transport sse: write " +
				"another port, and have the image listen there",
		},
	}},
	{"spec.stdio", []row{
		{
			mistake: "for another transport", spec: "stdio: {process: Shared}", field: "spec",
			says: "Invalid value: stdio is for transport stdio: remove it, or write transport: stdio",
		},
		{
			mistake: "no such process", spec: "transport: stdio\ncommand: [/server]\nstdio: {process: PerUser}",
			field: "spec.stdio.process", says: "Unsupported value: \"PerUser\": supported values: \"PerSession\", \"Shared\"",
		},
		{
			mistake: "no sessions", spec: "transport: stdio\ncommand: [/server]\nstdio: {maxSessions: 0}",
			field: "spec.stdio.maxSessions", says: "Invalid value: 0: write how many sessions a pod may have, 1 to 1000",
		},
		{
			mistake: "too many", spec: "transport: stdio\ncommand: [/server]\nstdio: {maxSessions: 1001}",
			field: "spec.stdio.maxSessions", says: "Invalid value: 1001: write how many sessions a pod may have, 1 to 1000",
		},
		{
			mistake: "an end at once", spec: "transport: stdio\ncommand: [/server]\nstdio: {sessionIdleSeconds: 0}",
			field: "spec.stdio.sessionIdleSeconds",
			says:  "Invalid value: 0: write how many seconds an idle session lasts, 60 to 86400",
		},
		{
			mistake: "a long time", spec: "transport: stdio\ncommand: [/server]\nstdio: {sessionIdleSeconds: 86401}",
			field: "spec.stdio.sessionIdleSeconds",
			says:  "Invalid value: 86401: write how many seconds an idle session lasts, 60 to 86400",
		},
	}},
	{"spec.port", []row{
		{
			mistake: "zero", spec: "port: 0", field: "spec.port",
			says: "Invalid value: 0: write the port on which the image listens, 1 to 65535",
		},
		{
			mistake: "negative", spec: "port: -1", field: "spec.port",
			says: "Invalid value: -1: write the port on which the image listens, 1 to 65535",
		},
		{
			mistake: "out of range", spec: "port: 65536", field: "spec.port",
			says: "Invalid value: 65536: write the port on which the image listens, 1 to 65535",
		},
		{
			mistake: "a text", spec: `port: "8080"`, field: "spec.port",
			says:    "Invalid value: \"string\": spec.port in body must be of type integer: \"string\"",
			applied: ".spec.port: expected numeric (int or float), got string",
		},
		{
			mistake: "a name", spec: "port: http", field: "spec.port",
			says:    "Invalid value: \"string\": spec.port in body must be of type integer: \"string\"",
			applied: ".spec.port: expected numeric (int or float), got string",
		},
		{
			mistake: "a fraction", spec: "port: 80.5", field: "spec.port",
			says:  "Invalid value: \"float64\": spec.port in body must be of type int32: \"float64\"",
			older: `spec.port in body must be of type integer: "number"`,
		},
		{
			mistake: "beyond 32 bits", spec: "port: 4294975376",
			says:  "Invalid value: \"\": Checked value must be of type integer with format int32 in spec.port",
			older: "spec.port in body should be less than or equal to 65535",
		},
		{
			mistake: "template marks", spec: `port: "{{ .Values.port }}"`, field: "spec.port",
			says:    "Invalid value: \"string\": spec.port in body must be of type integer: \"string\"",
			applied: ".spec.port: expected numeric (int or float), got string",
		},
		{
			mistake: "a list", spec: "port: [8080]", field: "spec.port",
			says:    "Invalid value: \"array\": spec.port in body must be of type integer: \"array\"",
			applied: ".spec.port: expected numeric (int or float), got []interface {}",
		},
	}},
	{"spec.path", []row{
		{
			mistake: "no / first", spec: "path: mcp", field: "spec.path",
			says: "Invalid value: \"mcp\": path must begin with / and hold only letters, digits and . _ ~ / -: write for " +
				"example /mcp",
		},
		{
			mistake: "empty", spec: `path: ""`, field: "spec.path",
			says: "Invalid value: \"\": path must begin with / and hold only letters, digits and . _ ~ / -: write for example " +
				"/mcp",
		},
		{
			mistake: "a space", spec: "path: /m cp", field: "spec.path",
			says: "Invalid value: \"/m cp\": path must begin with / and hold only letters, digits and . _ ~ / -: write for " +
				"example /mcp",
		},
		{
			mistake: "a query", spec: "path: /mcp?key=1", field: "spec.path",
			says: "Invalid value: \"/mcp?key=1\": path must begin with / and hold only letters, digits and . _ ~ / -: write " +
				"for example /mcp",
		},
		{
			mistake: "a URL", spec: "path: http://echo/mcp", field: "spec.path",
			says: "Invalid value: \"http://echo/mcp\": path must begin with / and hold only letters, digits and . _ ~ / -: " +
				"write for example /mcp",
		},
		{
			mistake: "unicode", spec: "path: /mçp", field: "spec.path",
			says: "Invalid value: \"/mçp\": path must begin with / and hold only letters, digits and . _ ~ / -: write for " +
				"example /mcp",
		},
		{
			mistake: "template marks", spec: `path: "/{{ .Values.path }}"`, field: "spec.path",
			says: "Invalid value: \"/{{ .Values.path }}\": path must begin with / and hold only letters, digits and . _ ~ / " +
				"-: write for example /mcp",
		},
		{
			mistake: "a line break at the end", spec: "path: |\n  /mcp", field: "spec.path",
			says: "Invalid value: \"/mcp\\n\": path must begin with / and hold only letters, digits and . _ ~ / -: write for " +
				"example /mcp",
		},
		{
			mistake: "a way up", spec: "path: /mcp/../admin", field: "spec.path",
			says: "Invalid value: \"/mcp/../admin\": path must hold no //, /./ or /../, which proxies and browsers rewrite: " +
				"write for example /mcp",
		},
		{
			mistake: "two / in a row, as a template that rendered nothing leaves them", spec: "path: //mcp", field: "spec.path",
			says: "Invalid value: \"//mcp\": path must hold no //, /./ or /../, which proxies and browsers rewrite: write for " +
				"example /mcp",
		},
		{
			mistake: "too long", spec: "path: /" + strings.Repeat("a", 256), show: "path: (257 letters)", field: "spec.path",
			says: "Too long: may not be more than 256 bytes",
		},
	}},
	{"spec.replicas", []row{
		{
			mistake: "negative", spec: "replicas: -1", field: "spec.replicas",
			says: "Invalid value: -1: write how many pods there are to be, 0 to 1000",
		},
		{
			mistake: "too many", spec: "replicas: 1001", field: "spec.replicas",
			says: "Invalid value: 1001: write how many pods there are to be, 0 to 1000",
		},
		{
			mistake: "a text", spec: `replicas: "2"`, field: "spec.replicas",
			says:    "Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\"",
			applied: ".spec.replicas: expected numeric (int or float), got string",
		},
		{
			mistake: "a fraction", spec: "replicas: 1.5", field: "spec.replicas",
			says:  "Invalid value: \"float64\": spec.replicas in body must be of type int32: \"float64\"",
			older: `spec.replicas in body must be of type integer: "number"`,
		},
		{
			mistake: "a range", spec: "replicas: {min: 1, max: 3}",
			says:    "unknown field \"spec.replicas.max\", unknown field \"spec.replicas.min\"",
			applied: ".spec.replicas: expected numeric (int or float), got map[string]interface {}",
		},
	}},
	{"spec.progressDeadlineSeconds", []row{
		{
			mistake: "none", spec: "progressDeadlineSeconds: 0", field: "spec.progressDeadlineSeconds",
			says: "Invalid value: 0: write how many seconds may pass, 1 to 3600",
		},
		{
			mistake: "a day", spec: "progressDeadlineSeconds: 86400", field: "spec.progressDeadlineSeconds",
			says: "Invalid value: 86400: write how many seconds may pass, 1 to 3600",
		},
		{
			mistake: "a duration", spec: "progressDeadlineSeconds: 10m", field: "spec.progressDeadlineSeconds",
			says:    "Invalid value: \"string\": spec.progressDeadlineSeconds in body must be of type integer: \"string\"",
			applied: ".spec.progressDeadlineSeconds: expected numeric (int or float), got string",
		},
	}},
	{"spec.resources, spec.proxy.resources", []row{
		{
			mistake: "no quantity", spec: "resources: {limits: {memory: 1GB}}", field: "spec.resources",
			says: "Invalid value: limits must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi",
		},
		{
			mistake: "a space in a quantity", spec: "resources: {limits: {memory: 1 Gi}}", field: "spec.resources",
			says: "Invalid value: limits must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi",
		},
		{
			mistake: "no quantity in requests", spec: "resources: {requests: {cpu: half}}", field: "spec.resources",
			says: "Invalid value: requests must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi",
		},
		{
			mistake: "template marks", spec: `resources: {limits: {memory: "{{ .Values.memory }}"}}`, field: "spec.resources",
			says: "Invalid value: limits must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi",
		},
		{
			mistake: "a fraction without quotes", spec: "resources: {limits: {cpu: 0.5}}", field: "spec.resources.limits.cpu",
			says: "Invalid value: \"number\": spec.resources.limits.cpu in body must be of type integer,string: \"number\"",
		},
		{
			mistake: "negative", spec: `resources: {limits: {cpu: "-1"}}`, field: "spec.resources",
			says: "Invalid value: limits must not be negative: write 0 or more, or leave the entry out",
		},
		{
			mistake: "a negative number in requests", spec: "resources: {requests: {cpu: -1}}", field: "spec.resources",
			says: "Invalid value: requests must not be negative: write 0 or more, or leave the entry out",
		},
		{
			mistake: "a resource that Kubernetes does not know", spec: "resources: {limits: {gpu: 1}}", field: "spec.resources",
			says: "Invalid value: limits name a resource that Kubernetes does not know: write cpu, memory or " +
				"ephemeral-storage, or another by its whole name, for example nvidia.com/gpu",
		},
		{
			mistake: "a typo", spec: "resources: {limit: {cpu: 1}}", says: "unknown field \"spec.resources.limit\"",
			applied: ".spec.resources.limit: field not declared in schema",
		},
		{
			mistake: "limits without limits", spec: "resources: {memory: 1Gi}", says: "unknown field \"spec.resources.memory\"",
			applied: ".spec.resources.memory: field not declared in schema",
		},
		{
			mistake: "a text", spec: "resources: small", field: "spec.resources",
			says:    "Invalid value: \"string\": spec.resources in body must be of type object: \"string\"",
			applied: ".spec.resources: expected map, got &{small}",
		},
		{
			mistake: "a list", spec: "resources: {limits: [{cpu: 1}]}", says: "unknown field \"spec.resources.limits[0].cpu\"",
			applied: ".spec.resources.limits: expected map, got &{[map[cpu:1]]}",
		},
		{
			mistake: "too many", spec: "resources: {limits: {" + strings.Trim(items(17, "example.com/r%d: 1"), "[]") + "}}",
			show: "resources: {limits: (17 entries)}", field: "spec.resources.limits",
			says: "Too many: 17: must have at most 16 items",
		},
		{
			mistake: "no quantity for the proxy", spec: "proxy: {resources: {limits: {memory: much}}}",
			field: "spec.proxy.resources",
			says:  "Invalid value: limits must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi",
		},
	}},
}
