package conversion

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/launch"
)

const (
	clientsTime = "clients set their own; the proxy ends no call that is in progress"
	ownSessions = "the proxy ends each session that it began"
	described   = "no field has it: keep it in an annotation"
)

// kagent are the kinds of https://github.com/kagent-dev/kagent that say where a server is.
func kagent() []kind {
	toolServer := func(name, to string, rows ...row) kind {
		return kind{
			product: "kagent", group: "kagent.dev", versions: []string{"v1alpha1"}, kind: "ToolServer", to: to,
			when: func(u *unstructured.Unstructured) bool { return isSet(u.Object, "spec.config."+name) },
			rows: append(rows, row{from: "spec.description", note: described}, row{from: "spec.config.type", take: nothing}),
		}
	}
	at := func(from, transport string) []row {
		return []row{
			{from: from + ".url", to: "spec.url", take: urlOf(transport)},
			{from: from + ".headers", to: "spec.headers", take: plainHeaders},
			{from: from + ".headersFrom", to: "spec.headers", take: valueRefs("spec.headers")},
			{from: from + ".timeout", note: clientsTime},
			{from: from + ".sseReadTimeout", note: clientsTime},
		}
	}
	return []kind{
		{
			product: "kagent", group: "kagent.dev", versions: []string{"v1alpha2"}, kind: "RemoteMCPServer",
			to: "MCPRemoteProxy",
			rows: []row{
				{
					from: "spec.protocol", to: "spec.transport",
					take: words(map[string]string{"STREAMABLE_HTTP": "streamable-http", "SSE": "sse"}, "write streamable-http or sse"),
				},
				{from: "spec.url", to: "spec.url", take: remoteURL},
				{from: "spec.headersFrom", to: "spec.headers", take: valueRefs("spec.headers")},
				{from: "spec.description", note: described},
				{from: "spec.timeout", note: clientsTime},
				{from: "spec.sseReadTimeout", note: clientsTime},
				{from: "spec.terminateOnClose", granted: true, note: ownSessions},
				{
					from: "spec.allowedNamespaces",
					note: "it says which agents may name the object: write a NetworkPolicy for the proxy, or an MCPOIDCConfig",
				},
			},
		},
		toolServer("stdio", "MCPServer",
			row{from: "spec.config.stdio.command", to: "spec.image, spec.command and spec.args", take: commandLine},
			row{from: "spec.config.stdio.env", to: "spec.env", take: variables},
			row{from: "spec.config.stdio.envFrom", to: "spec.env", take: valueRefs("spec.env")},
			row{from: "spec.config.stdio.readTimeoutSeconds", note: clientsTime}),
		toolServer("sse", "MCPRemoteProxy", at("spec.config.sse", "sse")...),
		toolServer("streamableHttp", "MCPRemoteProxy", append(at("spec.config.streamableHttp", "streamable-http"),
			row{from: "spec.config.streamableHttp.terminateOnClose", note: ownSessions})...),
	}
}

func urlOf(transport string) taker {
	return func(c *conversion, to string, value any) string {
		set(c.main, "spec.transport", transport)
		return remoteURL(c, to, value)
	}
}

// commandLine is a server that another program starts as its child.
func commandLine(c *conversion, _ string, value any) string {
	args, _ := cut(c.rest, "spec.config.stdio.args")
	var list []string
	for _, arg := range anys(args) {
		list = append(list, text(arg))
	}
	s := launch.Of(text(value), list)
	if s.Local != "" {
		c.open = true
		return withoutSecrets(s.Local)
	}
	c.runner = s.Runner
	c.program(Entry{Server: s})
	for _, note := range s.Notes {
		c.remark("spec.config.stdio.command", value, withoutSecrets(note))
	}
	return ""
}

// valueRefs turns {name, value} and {name, valueFrom} into a list of ours.
func valueRefs(field string) taker {
	return func(c *conversion, _ string, value any) string {
		var said []string
		for _, one := range items(value) {
			from, _ := one["valueFrom"].(map[string]any)
			ref := text(from["name"])
			if ref == "" {
				ref = text(from["valueRef"])
			}
			if namespace, name, crosses := strings.Cut(ref, "/"); crosses {
				ref = name
				said = append(said, text(one["name"])+" is in the namespace "+namespace+": copy it to this one")
			}
			made := map[string]any{"name": one["name"]}
			of := map[string]any{"name": ref, "key": from["key"]}
			switch {
			case from == nil:
				made["value"] = one["value"]
			case from["type"] == "Secret":
				made["valueFrom"] = map[string]any{"secretKeyRef": of}
			case field == "spec.env":
				made["valueFrom"] = map[string]any{"configMapKeyRef": of}
			default:
				said = append(said, text(one["name"])+" comes from a ConfigMap: write its value, or put it into a Secret")
				continue
			}
			add(c.main, field, made)
		}
		return strings.Join(said, "; ")
	}
}

func anys(value any) []any {
	list, _ := value.([]any)
	return list
}
