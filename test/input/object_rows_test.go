package input

import "strings"

// whole is a server whose mistake lies in a line outside its spec.
func whole(apiVersion, kind, metadata, rest string) string {
	return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: " + metadata + "\n" + rest + "\n"
}

const (
	version = "freehold.dev/v1alpha1"
	kind    = "MCPServer"
	fine    = "spec: {image: " + goodImage + "}"
)

var objectRows = []subject{
	{"The object", []row{
		{mistake: "no spec", whole: whole(version, kind, "{name: NAME}", ""), field: "spec", says: "Required value"},
		{
			mistake: "a list as spec", whole: whole(version, kind, "{name: NAME}", "spec: [{image: i}]"),
			says:    "unknown field \"spec[0].image\"",
			applied: ".spec: expected map, got &{[map[image:i]]}",
		},
		{
			mistake: "a text as spec", whole: whole(version, kind, "{name: NAME}", "spec: |\n  image: i"), field: "spec",
			says:    "Invalid value: \"string\": spec in body must be of type object: \"string\"",
			applied: ".spec: expected map, got &{image: i }",
		},
		{
			mistake: "the spec's fields beside spec", whole: whole(version, kind, "{name: NAME}", fine+"\nport: 8080"),
			says:    "unknown field \"port\"",
			applied: ".port: field not declared in schema",
		},
		{
			mistake: "a field twice", spec: "port: 8080\nport: 8081", says: "yaml: unmarshal errors: line…",
			applied: "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors: line…",
		},
		{
			mistake: "a label that is none", whole: whole(version, kind, `{name: NAME, labels: {team: "a b"}}`, fine),
			field: "metadata.labels", says: "Invalid value: \"a b\": a valid label must be an empty string or consist of " +
				"alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. " +
				"'MyValue', or 'my_value', or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
		},
		{
			mistake: "a label that is a number", whole: whole(version, kind, `{name: NAME, labels: {version: 1}}`, fine),
			says:    "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
			applied: ".metadata.labels.version: expected string, got &value.valueUnstructured{Value:1}",
		},
		{
			mistake: "annotations of more than 256 KiB",
			whole:   whole(version, kind, `{name: NAME, annotations: {a: `+strings.Repeat("x", 262145)+`}}`, fine),
			show:    "metadata: {annotations: {a: (256 KiB)}}", field: "metadata.annotations",
			says: "Too long: may not be more than 262144 bytes",
		},
		{
			mistake: "more than 3 MiB", spec: "args: [" + strings.Repeat("x", 3<<20) + "]", show: "args: [(3 MiB)]",
			says: "Request entity too large: limit is 3145728",
		},
	}},
	{"metadata.name", []row{
		{
			mistake: "too long for the names of its objects", whole: named(strings.Repeat("a", 45)),
			show: "metadata: {name: (45 letters)}",
			says: "Invalid value: the name must have at most 44 characters, so that the names of its StatefulSet and Services " +
				"fit: choose a shorter one",
		},
		{
			mistake: "a digit first", whole: named("1st"),
			says: "Invalid value: the name must begin with a lower-case letter and hold only lower-case letters, digits and " +
				"-: write for example team-echo",
		},
		{
			mistake: "a dot", whole: named("echo.v1"),
			says: "Invalid value: the name must begin with a lower-case letter and hold only lower-case letters, digits and " +
				"-: write for example team-echo",
		},
		{
			mistake: "upper case", whole: named("Echo"),
			says: "Invalid value: the name must begin with a lower-case letter and hold only lower-case letters, digits and " +
				"-: write for example team-echo",
		},
		{
			mistake: "an underscore", whole: named("my_echo"),
			says: "Invalid value: the name must begin with a lower-case letter and hold only lower-case letters, digits and " +
				"-: write for example team-echo",
		},
		{
			mistake: "a dash at the end, as a template that rendered nothing leaves it", whole: named("echo-"),
			says: "Invalid value: the name must begin with a lower-case letter and hold only lower-case letters, digits and " +
				"-: write for example team-echo",
		},
		{
			mistake: "template marks", whole: named(`"{{ .Release.Name }}"`),
			says: "Invalid value: the name must begin with a lower-case letter and hold only lower-case letters, digits and " +
				"-: write for example team-echo",
		},
		{
			mistake: "a line break", whole: named(`"echo\n"`),
			says: "Invalid value: the name must begin with a lower-case letter and hold only lower-case letters, digits and " +
				"-: write for example team-echo",
		},
		{
			mistake: "unicode", whole: named("écho"),
			says: "Invalid value: the name must begin with a lower-case letter and hold only lower-case letters, digits and " +
				"-: write for example team-echo",
		},
		{
			mistake: "missing", whole: whole(version, kind, "{labels: {a: b}}", fine), field: "metadata.name",
			says: "Required value: name or generateName is required",
		},
	}},
	{"spec", []row{
		{
			mistake: "a typo", spec: "replica: 2", says: "unknown field \"spec.replica\"",
			applied: ".spec.replica: field not declared in schema",
		},
		{
			mistake: "upper case", spec: "Port: 8080", says: "unknown field \"spec.Port\"",
			applied: ".spec.Port: field not declared in schema",
		},
		{
			mistake: "a field of a Pod", spec: "containers: [{name: a, image: b}]", says: "unknown field \"spec.containers\"",
			applied: ".spec.containers: field not declared in schema",
		},
		{
			mistake: "a field of podTemplate", spec: "nodeSelector: {disk: ssd}", says: "unknown field \"spec.nodeSelector\"",
			applied: ".spec.nodeSelector: field not declared in schema",
		},
		{
			mistake: "a number as switch", spec: "suspend: 1", field: "spec.suspend",
			says:    "Invalid value: \"integer\": spec.suspend in body must be of type boolean: \"integer\"",
			applied: ".spec.suspend: expected boolean, got &{1}",
		},
		{
			mistake: "a text as switch", spec: `suspend: "true"`, field: "spec.suspend",
			says:    "Invalid value: \"string\": spec.suspend in body must be of type boolean: \"string\"",
			applied: ".spec.suspend: expected boolean, got &{true}",
		},
		{
			mistake: "a word as restart", spec: "restartedAt: now", field: "spec.restartedAt",
			says: "Invalid value: \"now\": spec.restartedAt in body must be of type date-time: \"now\"",
		},
		{
			mistake: "a date as restart", spec: "restartedAt: 2026-05-06", field: "spec.restartedAt",
			says: "Invalid value: \"2026-05-06\": spec.restartedAt in body must be of type date-time: \"2026-05-06\"",
		},
		{
			mistake: "a Unix time as restart", spec: "restartedAt: 1762000000", field: "spec.restartedAt",
			says: "Invalid value: \"int64\": spec.restartedAt in body must be of type date-time: \"int64\"",
		},
	}},
}

func named(name string) string { return whole(version, kind, "{name: "+name+"}", fine) }
