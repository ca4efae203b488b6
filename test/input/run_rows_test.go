package input

import (
	"fmt"
	"strings"
)

// items are n items of a list, in YAML.
func items(n int, format string) string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// runRows are about what runs: image, command, environment.
var runRows = []subject{
	{"spec.image", []row{
		{
			mistake: "missing", whole: whole(version, kind, "{name: NAME}", "spec: {port: 8080}"), field: "spec.image",
			says: "Required value",
		},
		{
			mistake: "nothing", spec: "image:", field: "spec.image", says: "Required value",
			applied: "Invalid value: \"null\": spec.image in body must be of type string: \"null\"",
		},
		{
			mistake: "empty", spec: `image: ""`, field: "spec.image",
			says: "Invalid value: \"\": image must be an image reference without scheme, spaces or template marks, its " +
				"repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "a space", spec: `image: " "`, field: "spec.image",
			says: "Invalid value: \" \": image must be an image reference without scheme, spaces or template marks, its " +
				"repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "template marks of Helm", spec: `image: "{{ .Values.image }}"`, field: "spec.image",
			says: "Invalid value: \"{{ .Values.image }}\": image must be an image reference without scheme, spaces or " +
				"template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "template marks of a shell", spec: "image: ${IMAGE}", field: "spec.image",
			says: "Invalid value: \"${IMAGE}\": image must be an image reference without scheme, spaces or template marks, " +
				"its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "a placeholder", spec: "image: <your image>", field: "spec.image",
			says: "Invalid value: \"<your image>\": image must be an image reference without scheme, spaces or template " +
				"marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "a line break at the end", spec: "image: |\n  registry.example.com/echo:1", field: "spec.image",
			says: "Invalid value: \"registry.example.com/echo:1\\n\": image must be an image reference without scheme, spaces " +
				"or template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "a control character", spec: `image: "echo\a:1"`, field: "spec.image",
			says: "Invalid value: \"echo\\a:1\": image must be an image reference without scheme, spaces or template marks, " +
				"its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "a character that is not seen", spec: `image: "echo\u200b:1"`, field: "spec.image",
			says: "Invalid value: \"echo\\u200b:1\": image must be an image reference without scheme, spaces or template " +
				"marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "unicode", spec: "image: registry.example.com/écho:1", field: "spec.image",
			says: "Invalid value: \"registry.example.com/écho:1\": image must be an image reference without scheme, spaces or " +
				"template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "a URL", spec: "image: https://registry.example.com/echo:1", field: "spec.image",
			says: "Invalid value: \"https://registry.example.com/echo:1\": image must be an image reference without scheme, " +
				"spaces or template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "no tag behind the colon, as a template that rendered nothing leaves it",
			spec:    `image: "registry.example.com/echo:"`, field: "spec.image",
			says: "Invalid value: \"registry.example.com/echo:\": image must be an image reference without scheme, spaces or " +
				"template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "no digest behind the @", spec: `image: "registry.example.com/echo@sha256:"`, field: "spec.image",
			says: "Invalid value: \"registry.example.com/echo@sha256:\": image must be an image reference without scheme, " +
				"spaces or template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "two tags", spec: `image: "registry.example.com/echo:1:2"`, field: "spec.image",
			says: "Invalid value: \"registry.example.com/echo:1:2\": image must be an image reference without scheme, spaces " +
				"or template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "a repository in upper case", spec: "image: registry.example.com/Echo:1", field: "spec.image",
			says: "Invalid value: \"registry.example.com/Echo:1\": image must be an image reference without scheme, spaces or " +
				"template marks, its repository in lower case: write for example registry.example.com/team/server:1.2.3",
		},
		{
			mistake: "too long", spec: "image: " + strings.Repeat("a", 1025), show: "image: (1025 letters)", field: "spec.image",
			says: "Too long: may not be more than 1024 bytes",
		},
		{
			mistake: "1 MiB", spec: "image: " + strings.Repeat("a", 1<<20), show: "image: (1 MiB)", field: "spec.image",
			says: "Too long: may not be more than 1024 bytes",
		},
		{
			mistake: "a number", spec: "image: 1", field: "spec.image",
			says:    "Invalid value: \"integer\": spec.image in body must be of type string: \"integer\"",
			applied: ".spec.image: expected string, got &value.valueUnstructured{Value:1}",
		},
		{
			mistake: "a list", spec: "image: [echo]", field: "spec.image",
			says:    "Invalid value: \"array\": spec.image in body must be of type string: \"array\"",
			applied: ".spec.image: expected string, got &value.valueUnstructured{Value:[]interface {}{\"echo\"}}",
		},
		{
			mistake: "repository and tag apart, as charts have them", spec: "image: {repository: echo, tag: \"1\"}",
			says: "unknown field \"spec.image.repository\", unknown field \"spec.image.tag\"",
			applied: ".spec.image: expected string, got &value.valueUnstructured{Value:map[string]interface " +
				"{}{\"repository\":\"echo\", \"tag\":\"1\"}}",
		},
	}},
	{"spec.command and spec.args", []row{
		{
			mistake: "a text as command", spec: "command: /server --verbose", field: "spec.command",
			says:    "Invalid value: \"string\": spec.command in body must be of type array: \"string\"",
			applied: ".spec.command: expected list, got &{/server --verbose}",
		},
		{
			mistake: "a text as args", spec: "args: --verbose", field: "spec.args",
			says:    "Invalid value: \"string\": spec.args in body must be of type array: \"string\"",
			applied: ".spec.args: expected list, got &{--verbose}",
		},
		{
			mistake: "a number in args", spec: "args: [--port, 8080]", field: "spec.args[1]",
			says:    "Invalid value: \"integer\": spec.args[1] in body must be of type string: \"integer\"",
			applied: ".spec.args[1]: expected string, got &value.valueUnstructured{Value:8080}",
		},
		{
			mistake: "a switch in args", spec: "args: [--verbose, true]", field: "spec.args[1]",
			says:    "Invalid value: \"boolean\": spec.args[1] in body must be of type string: \"boolean\"",
			applied: ".spec.args[1]: expected string, got &value.valueUnstructured{Value:true}",
		},
		{
			mistake: "nothing in args", spec: "args: [--verbose, null]", field: "spec.args[1]",
			says: "Invalid value: \"null\": spec.args[1] in body must be of type string: \"null\"",
		},
		{
			mistake: "a list in args", spec: "args: [[--verbose]]", field: "spec.args[0]",
			says:    "Invalid value: \"array\": spec.args[0] in body must be of type string: \"array\"",
			applied: ".spec.args[0]: expected string, got &value.valueUnstructured{Value:[]interface {}{\"--verbose\"}}",
		},
		{
			mistake: "a map as args", spec: "args: {port: 8080}", says: "unknown field \"spec.args.port\"",
			applied: ".spec.args: expected list, got &{map[port:8080]}",
		},
		{
			mistake: "too many args", spec: "args: " + items(257, "a%d"), show: "args: (257 items)", field: "spec.args",
			says: "Too many: 257: must have at most 256 items",
		},
		{
			mistake: "too many words of a command", spec: "command: " + items(257, "a%d"), show: "command: (257 items)",
			field: "spec.command", says: "Too many: 257: must have at most 256 items",
		},
		{
			mistake: "an argument that no Linux takes", spec: "args: [" + strings.Repeat("x", 131073) + "]",
			show: "args: [(128 KiB and one letter)]", field: "spec.args[0]",
			says: "Too long: may not be more than 131072 bytes",
		},
		{
			mistake: "a command that no Linux takes", spec: "command: [" + strings.Repeat("x", 131073) + "]",
			show: "command: [(128 KiB and one letter)]", field: "spec.command[0]",
			says: "Too long: may not be more than 131072 bytes",
		},
		{
			mistake: "more than etcd stores", spec: "args: " + items(13, "%d"+strings.Repeat("x", 122880)),
			show: "args: (13 items of 120 KiB)", says: "etcdserver: request is too large",
		},
	}},
	{"spec.env", []row{
		{
			mistake: "a map", spec: "env: {LEVEL: debug}", says: "unknown field \"spec.env.LEVEL\"",
			applied: ".spec.env: expected list, got &{map[LEVEL:debug]}",
		},
		{
			mistake: "NAME=value", spec: "env: [LEVEL=debug]", field: "spec.env[0]",
			says:    "Invalid value: \"string\": spec.env[0] in body must be of type object: \"string\"",
			applied: ".spec.env: element 0: associative list with keys may not have non-map elements",
		},
		{
			mistake: "no name", spec: "env: [{value: debug}]", field: "spec.env[0].name", says: "Required value",
			applied: ".spec.env: element 0: associative list with keys has an element that omits all key fields [\"name\"] " +
				"(and doesn't have default values for any key fields)",
		},
		{
			mistake: "a number", spec: "env: [{name: LEVEL, value: 1}]", field: "spec.env[0].value",
			says:    "Invalid value: \"integer\": spec.env[0].value in body must be of type string: \"integer\"",
			applied: ".spec.env[name=\"LEVEL\"].value: expected string, got &value.valueUnstructured{Value:1}",
		},
		{
			mistake: "a switch", spec: "env: [{name: VERBOSE, value: true}]", field: "spec.env[0].value",
			says:    "Invalid value: \"boolean\": spec.env[0].value in body must be of type string: \"boolean\"",
			applied: ".spec.env[name=\"VERBOSE\"].value: expected string, got &value.valueUnstructured{Value:true}",
		},
		{
			mistake: "value and valueFrom", spec: "env: [{name: A, value: b, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
			field: "spec", says: "Invalid value: an env item has either value or valueFrom: remove one of them",
		},
		{
			mistake: "the same name twice", spec: "env: [{name: A, value: a}, {name: A, value: b}]", field: "spec.env[1]",
			says:    "Duplicate value: {\"name\":\"A\"}",
			applied: ".spec.env: duplicate entries for key [name=\"A\"]",
		},
		{
			mistake: "a typo", spec: "env: [{name: A, vale: a}]", says: "unknown field \"spec.env[0].vale\"",
			applied: ".spec.env[name=\"A\"].vale: field not declared in schema",
		},
		{
			mistake: "no such source", spec: "env: [{name: A, valueFrom: {secretRef: {name: s}}}]",
			says:    "unknown field \"spec.env[0].valueFrom.secretRef\"",
			applied: ".spec.env[name=\"A\"].valueFrom.secretRef: field not declared in schema",
		},
		{
			mistake: "no key", spec: "env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]",
			field: "spec.env[0].valueFrom.secretKeyRef.key", says: "Required value",
		},
		{
			mistake: "10,000 items", spec: "env: " + items(10000, "{name: A%d, value: a}"), show: "env: (10,000 items)",
			field: "spec.env", says: "Too many: 10000: must have at most 256 items",
		},
	}},
	{"spec.envFrom", []row{
		{
			mistake: "one, and not a list", spec: "envFrom: {configMapRef: {name: a}}",
			says:    "unknown field \"spec.envFrom.configMapRef\"",
			applied: ".spec.envFrom: expected list, got &{map[configMapRef:map[name:a]]}",
		},
		{
			mistake: "a name", spec: "envFrom: [settings]", field: "spec.envFrom[0]",
			says:    "Invalid value: \"string\": spec.envFrom[0] in body must be of type object: \"string\"",
			applied: ".spec.envFrom[0]: expected map, got &{settings}",
		},
		{
			mistake: "no such source", spec: "envFrom: [{configMap: {name: a}}]",
			says:    "unknown field \"spec.envFrom[0].configMap\"",
			applied: ".spec.envFrom[0].configMap: field not declared in schema",
		},
		{
			mistake: "too many", spec: "envFrom: " + items(65, "{configMapRef: {name: a%d}}"), show: "envFrom: (65 items)",
			field: "spec.envFrom", says: "Too many: 65: must have at most 64 items",
		},
	}},
	{"spec.imagePullPolicy and spec.imagePullSecrets", []row{
		{
			mistake: "lower case", spec: "imagePullPolicy: always", field: "spec.imagePullPolicy",
			says: "Unsupported value: \"always\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
		},
		{
			mistake: "empty, as a template that rendered nothing leaves it", spec: `imagePullPolicy: ""`,
			field: "spec.imagePullPolicy",
			says:  "Unsupported value: \"\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
		},
		{
			mistake: "a text", spec: "imagePullSecrets: registry", field: "spec.imagePullSecrets",
			says:    "Invalid value: \"string\": spec.imagePullSecrets in body must be of type array: \"string\"",
			applied: ".spec.imagePullSecrets: expected list, got &{registry}",
		},
		{
			mistake: "names", spec: "imagePullSecrets: [registry]", field: "spec.imagePullSecrets[0]",
			says:    "Invalid value: \"string\": spec.imagePullSecrets[0] in body must be of type object: \"string\"",
			applied: ".spec.imagePullSecrets: element 0: associative list with keys may not have non-map elements",
		},
		{
			mistake: "the same name twice", spec: "imagePullSecrets: [{name: a}, {name: a}]", field: "spec.imagePullSecrets[1]",
			says:    "Duplicate value: {\"name\":\"a\"}",
			applied: ".spec.imagePullSecrets: duplicate entries for key [name=\"a\"]",
		},
		{
			mistake: "too many", spec: "imagePullSecrets: " + items(17, "{name: a%d}"), show: "imagePullSecrets: (17 items)",
			field: "spec.imagePullSecrets", says: "Too many: 17: must have at most 16 items",
		},
	}},
	{"spec.serviceAccountName", []row{
		{
			mistake: "upper case", spec: "serviceAccountName: Robot", field: "spec.serviceAccountName",
			says: "Invalid value: \"Robot\": serviceAccountName must be the name of a ServiceAccount of this namespace, of " +
				"lower-case letters, digits, - and .: write for example echo, or leave the field out",
		},
		{
			mistake: "with its namespace", spec: "serviceAccountName: team-a/robot", field: "spec.serviceAccountName",
			says: "Invalid value: \"team-a/robot\": serviceAccountName must be the name of a ServiceAccount of this " +
				"namespace, of lower-case letters, digits, - and .: write for example echo, or leave the field out",
		},
		{
			mistake: "template marks", spec: `serviceAccountName: "{{ .Values.serviceAccount }}"`,
			field: "spec.serviceAccountName",
			says: "Invalid value: \"{{ .Values.serviceAccount }}\": serviceAccountName must be the name of a ServiceAccount " +
				"of this namespace, of lower-case letters, digits, - and .: write for example echo, or leave the field out",
		},
		{
			mistake: "an object", spec: "serviceAccountName: {name: robot}",
			says: "unknown field \"spec.serviceAccountName.name\"",
			applied: ".spec.serviceAccountName: expected string, got &value.valueUnstructured{Value:map[string]interface " +
				"{}{\"name\":\"robot\"}}",
		},
		{
			mistake: "that of a runner", spec: "serviceAccountName: echo-runner", field: "spec.serviceAccountName",
			says: "Invalid value: \"echo-runner\": accounts that end in -runner are those of Freehold's runners: choose another",
		},
		{
			mistake: "too long", spec: "serviceAccountName: " + strings.Repeat("a", 254),
			show: "serviceAccountName: (254 letters)", field: "spec.serviceAccountName",
			says: "Too long: may not be more than 253 bytes",
		},
	}},
	{"spec.network.egress", []row{
		{
			mistake: "a rule that allows everything", spec: "network: {egress: [{}]}", field: "spec.network.egress[0]",
			says: "Invalid value: a rule without to and ports would allow every connection: write to, ports or both, or leave " +
				"egress out to allow all",
		},
		{
			mistake: "a place of nothing", spec: "network: {egress: [{to: [{}]}]}", field: "spec.network.egress[0].to[0]",
			says: "Invalid value: a place is either ipBlock, or podSelector and namespaceSelector: write one of them",
		},
		{
			mistake: "pods and addresses in one",
			spec:    "network: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}]}",
			field:   "spec.network.egress[0].to[0]",
			says:    "Invalid value: a place is either ipBlock, or podSelector and namespaceSelector: write one of them",
		},
		{
			mistake: "an address in place of a range", spec: "network: {egress: [{to: [{ipBlock: {cidr: 203.0.113.7}}]}]}",
			field: "spec.network.egress[0].to[0].ipBlock.cidr",
			says: "Invalid value: \"203.0.113.7\": cidr must be a range of addresses that begins at its first one: write for " +
				"example 203.0.113.0/24, or 203.0.113.7/32 for one address",
		},
		{
			mistake: "a range that begins elsewhere", spec: "network: {egress: [{to: [{ipBlock: {cidr: 203.0.113.7/24}}]}]}",
			field: "spec.network.egress[0].to[0].ipBlock.cidr",
			says: "Invalid value: \"203.0.113.7/24\": cidr must be a range of addresses that begins at its first one: write " +
				"for example 203.0.113.0/24, or 203.0.113.7/32 for one address",
		},
		{
			mistake: "an exception outside",
			spec:    "network: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [192.168.0.0/16]}}]}]}",
			field:   "spec.network.egress[0].to[0].ipBlock",
			says: "Invalid value: each item of except must be a smaller range within cidr: write for example cidr: " +
				"10.0.0.0/8 and except: [10.1.0.0/16]",
		},
		{
			mistake: "an exception that is no range",
			spec:    "network: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.2.3]}}]}]}",
			field:   "spec.network.egress[0].to[0].ipBlock.except[0]",
			says: "Invalid value: \"10.1.2.3\": except must hold ranges of addresses that begin at their first one: write " +
				"for example 203.0.113.128/25",
		},
		{
			mistake: "a range of ports that ends before it begins",
			spec:    "network: {egress: [{ports: [{port: 443, endPort: 80}]}]}", field: "spec.network.egress[0].ports[0]",
			says: "Invalid value: endPort must not be below port: write the last port of the range, or leave it out",
		},
		{
			mistake: "a port of no number", spec: "network: {egress: [{ports: [{protocol: TCP}]}]}",
			field: "spec.network.egress[0].ports[0].port", says: "Required value",
		},
		{
			mistake: "a domain name", spec: "network: {egress: [{to: [{fqdn: example.com}]}]}",
			says:    "unknown field \"spec.network.egress[0].to[0].fqdn\"",
			applied: ".spec.network.egress[0].to[0].fqdn: field not declared in schema",
		},
	}},
}

// claim is a spec of a claim in which nothing is wrong.
const claim = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
