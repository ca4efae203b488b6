package input

import (
	"fmt"
	"strings"
)

// namedRows are what only the operator can judge. The condition Accepted says
// it, with reason SpecInvalid, and Ready repeats it.
var namedRows = []subject{
	{"spec.env, spec.envFrom", []row{
		{
			mistake: "= in a name", spec: "env: [{name: A=B, value: c}]", field: "spec.env[name=A=B].name",
			says: "no variable has such a name: write printable ASCII without =, for example LOG_LEVEL",
		},
		{
			mistake: "unicode in a name", spec: "env: [{name: GRÜSSE, value: c}]", field: "spec.env[name=GRÜSSE].name",
			says: "no variable has such a name: write printable ASCII without =, for example LOG_LEVEL",
		},
		{
			mistake: "a line break in a name", spec: `env: [{name: "A\n", value: c}]`, field: "spec.env[name=\"A\\n\"].name",
			says: "no variable has such a name: write printable ASCII without =, for example LOG_LEVEL",
		},
		{
			mistake: "no source", spec: "env: [{name: A, valueFrom: {}}]", field: "spec.env[name=A].valueFrom",
			says: "names no source: write one, or value",
		},
		{
			mistake: "two sources", spec: "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}, configMapKeyRef: " +
				"{name: c, key: k}}}]", field: "spec.env[name=A].valueFrom",
			says: "has both configMapKeyRef and secretKeyRef: keep one of them",
		},
		{
			mistake: "a Secret without a name", spec: "env: [{name: A, valueFrom: {secretKeyRef: {key: k}}}]",
			field: "spec.env[name=A].valueFrom.secretKeyRef.name", says: "missing: write the name of the Secret or ConfigMap",
		},
		{
			mistake: "an empty item of envFrom", spec: "envFrom: [{}]", field: "spec.envFrom[0]",
			says: "an empty item cannot be applied: remove it",
		},
		{
			mistake: "two sources in one item of envFrom", spec: "envFrom: [{configMapRef: {name: a}, secretRef: {name: b}}]",
			field: "spec.envFrom[0]", says: "has both configMapRef and secretRef: keep one of them",
		},
		{
			mistake: "a ConfigMap without a name", spec: `envFrom: [{configMapRef: {name: ""}}]`, field: "spec.envFrom[0]",
			says: "an empty item cannot be applied: remove it; spec.envFrom[0].configMapRef.name: missing: write the name of " +
				"the Secret or ConfigMap",
		},
	}},
	{"Much at once", []row{
		{
			mistake: "250 mistakes, of which the first 20 are named", spec: "env: " + items(250, `{name: "=%03d", value: a}`),
			show:  "env: (250 items without a name that can be)",
			field: "spec.env[name==000].name", says: manyProblems(),
		},
		{
			mistake: "more than 384 KiB in sum, where the policy freehold-size is not installed", spec: "args: [" +
				strings.Repeat(strings.Repeat("x", 131072)+", ", 3) + "x]",
			show: "args: (three of 128 KiB, and one)", field: "spec",
			says: "more than 393216 characters: move long values into a ConfigMap or Secret that volumes or envFrom name, " +
				"and policies into an MCPAuthzConfig, or write policies for groups instead of for each caller",
		},
		{
			mistake: "an overlay of more than 64 KiB",
			spec:    "podTemplate: {metadata: {annotations: {a: " + strings.Repeat("x", 64<<10) + "}}}",
			show:    "podTemplate: {metadata: {annotations: {a: (64 KiB)}}}", field: "spec.podTemplate",
			says: "is longer than 65536 bytes: keep long values in a ConfigMap or Secret that envFrom or volumes name",
		},
	}},
	{"spec.volumes, spec.volumeMounts", []row{
		{
			mistake: "a name in upper case", spec: "volumes: [{name: Cache}]", field: "spec.volumes[name=Cache].name",
			says: "no container or volume has such a name: write at most 63 lower-case letters, digits and -, for example cache",
		},
		{
			mistake: "a name that is too long", spec: "volumes: [{name: " + strings.Repeat("a", 64) + "}]",
			show:  "volumes: [{name: (64 letters)}]",
			field: "spec.volumes[name=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa].name",
			says: "no container or volume has such a name: write at most 63 lower-case letters, digits and -, for example " +
				"cache",
		},
		{
			mistake: "a name of 100 KiB", spec: "volumes: [{name: " + strings.Repeat("a", 102400) + "}]",
			show:  "volumes: [{name: (100 KiB)}]",
			field: "spec.volumes[name=" + strings.Repeat("a", 80) + "…].name",
			says: "no container or volume has such a name: write at most 63 lower-case letters, digits and -, for example " +
				"cache",
		},
		{
			mistake: "two kinds of volume in one", spec: "volumes: [{name: a, emptyDir: {}, configMap: {name: b}}]",
			field: "spec.volumes[name=a]", says: "has both emptyDir and configMap: keep one of them",
		},
		{
			mistake: "an empty kind of volume", spec: "volumes: [{name: a, projected: {}}]",
			field: "spec.volumes[name=a].projected", says: "an empty volume source cannot be applied: write what it holds",
		},
		{
			mistake: "a mount of no volume", spec: "volumeMounts: [{name: cache, mountPath: /cache}]",
			field: "spec.volumeMounts[mountPath=/cache].name",
			says:  "there is no volume of this name: add it to spec.volumes, or correct the name",
		},
		{
			mistake: "a mount path with a colon", spec: "volumes: [{name: a}]\nvolumeMounts: [{name: a, mountPath: \"/a:ro\"}]",
			field: "spec.volumeMounts[name=a].mountPath",
			says:  "no path holds a colon: write where in the container the volume appears, for example /data",
		},
	}},
	{"spec.resources, spec.proxy.resources", []row{
		{
			mistake: "requests above limits", spec: "resources: {limits: {cpu: 500m}, requests: {cpu: 1}}",
			field: "spec.resources.requests.cpu", says: "above its limit: lower the request or raise the limit",
		},
		{
			mistake: "requests of the proxy above limits",
			spec:    "proxy: {resources: {limits: {memory: 64M}, requests: {memory: 64Mi}}}",
			field:   "spec.proxy.resources.requests.memory", says: "above its limit: lower the request or raise the limit",
		},
	}},
	{"spec.authzConfig", []row{
		{
			mistake: "a policy that is not Cedar",
			spec:    `authzConfig: {policies: [{name: team, policy: "permit(principal, action resource);"}]}`,
			field:   "spec.authzConfig", says: "policy \"team\", line 1, column 34: \")\": exact got resource want ,: write " +
				"Cedar there, for example \"permit(principal, action, resource);\"",
		},
		{
			mistake: "a policy without a statement", spec: `authzConfig: {policies: [{name: team, policy: "// later"}]}`,
			field: "spec.authzConfig", says: "policy \"team\" has no statement: write for example \"permit(principal, action, " +
				"resource);\"",
		},
		{
			mistake: "entities that are not JSON",
			spec:    `authzConfig: {policies: [{name: team, policy: "permit(principal, action, resource);"}], entities: "{"}`,
			field:   "spec.authzConfig", says: "entities: unexpected end of JSON input: write a list of Cedar entities, or " +
				"leave the field out",
		},
	}},
	{"spec.args and all that runs", []row{
		{
			mistake: "more than a ConfigMap holds", spec: "args: " + items(3, "%d"+strings.Repeat("𝄞", 98304)),
			show: "args: (3 items of 98,304 characters of four bytes)", field: "spec",
			says: "is too long for the ConfigMap in which the runner gets it: keep command, args, env and podTemplate below 1 " +
				"MiB together, and put long texts into ConfigMaps of your own",
		},
	}},
	{"spec.proxy.service", []row{
		{
			mistake: "a label of Freehold's", spec: "proxy: {service: {labels: {app.kubernetes.io/version: a}}}",
			field: "spec.proxy.service.labels[\"app.kubernetes.io/version\"]",
			says:  "only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix",
		},
		{
			mistake: "an annotation of Freehold's",
			spec:    "proxy: {service: {annotations: {freehold.dev/workload-generation: \"9\"}}}",
			field:   "spec.proxy.service.annotations[\"freehold.dev/workload-generation\"]",
			says:    "only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix",
		},
		{
			mistake: "a key with a space", spec: `proxy: {service: {labels: {"my team": a}}}`,
			field: "spec.proxy.service.labels[\"my team\"]",
			says: "no label or annotation has such a key: write letters, digits, - _ and . with a domain before it if you " +
				"like, for example example.com/team",
		},
		{
			mistake: "a value with a space", spec: `proxy: {service: {labels: {team: "a b"}}}`,
			field: "spec.proxy.service.labels[\"team\"]",
			says:  "no label has such a value: write at most 63 letters, digits, - _ and ., or use an annotation",
		},
		{
			mistake: "template marks in a key", spec: `proxy: {service: {annotations: {"{{ .Values.key }}": a}}}`,
			field: "spec.proxy.service.annotations[\"{{ .Values.key }}\"]",
			says: "no label or annotation has such a key: write letters, digits, - _ and . with a domain before it if you " +
				"like, for example example.com/team",
		},
	}},
}

// manyProblems is what is said of the variables =000 to =249, but for the first field.
func manyProblems() string {
	const text = "no variable has such a name: write printable ASCII without =, for example LOG_LEVEL"
	all := text
	for i := 1; i < 20; i++ {
		all += fmt.Sprintf("; spec.env[name==%03d].name: %s", i, text)
	}
	return all + "; and more: correct these first"
}
