package conversion

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// litellm are servers behind a LiteLLM proxy, https://github.com/home-operations/litellm-operator.
func litellm() []kind {
	const workload = "spec.workload"
	transports := map[string]string{"http": "streamable-http", "sse": "sse", "stdio": "stdio"}
	of := func(to string, inside bool, rows ...row) kind {
		return kind{
			product: "litellm-operator", group: "litellm.home-operations.com", versions: []string{"v1alpha1"},
			kind: "LiteLLMMCPServer", to: to,
			when: func(u *unstructured.Unstructured) bool { return isSet(u.Object, workload) == inside },
			rows: append(rows,
				row{from: "spec.alias", note: "clients call the object's own name"},
				row{from: "spec.proxyRef", note: "each server has a proxy of its own"},
				row{from: "spec.proxyNamespace", note: "each server has a proxy of its own"},
				row{
					from: "spec.transport", to: "spec.transport",
					take: words(transports, "write streamable-http, sse or stdio"),
				},
				row{
					from: "spec.params", guards: true,
					note: "these are LiteLLM's own: write what limits callers as Cedar policies",
				},
			),
		}
	}
	server := of("MCPServer", true,
		row{from: workload + ".image", to: "spec.image"},
		row{from: workload + ".port", to: "spec.port"},
		row{from: workload + ".path", to: "spec.path"},
		row{from: workload + ".command", to: "spec.command"},
		row{from: workload + ".args", to: "spec.args"},
		row{from: workload + ".env", to: "spec.env"},
		row{from: workload + ".envFrom", to: "spec.envFrom"},
		row{from: workload + ".replicas", to: "spec.replicas", note: "leave it out if an autoscaler sets it"},
		row{from: workload + ".serviceAccountName", to: "spec.serviceAccountName"},
		row{from: workload + ".automountServiceAccountToken", take: nothing},
		row{from: workload + ".podAnnotations", to: "spec.podTemplate.metadata.annotations"},
		row{from: workload + ".podLabels", to: "spec.podTemplate.metadata.labels"},
		row{from: workload + ".resources.limits", to: "spec.resources.limits"},
		row{from: workload + ".resources.requests", to: "spec.resources.requests"},
		row{
			from: workload + ".securityContext", to: "spec.podTemplate.spec.containers[name=server].securityContext",
			take: inContainer("securityContext"),
		},
		row{from: workload + ".podSecurityContext", to: "spec.podTemplate.spec.securityContext"},
		row{from: workload + ".nodeSelector", to: "spec.podTemplate.spec.nodeSelector"},
		row{from: workload + ".tolerations", to: "spec.podTemplate.spec.tolerations"},
		row{from: workload + ".affinity", to: "spec.podTemplate.spec.affinity"},
		row{from: workload + ".volumes", to: "spec.volumes", take: withoutHostPaths},
		row{from: workload + ".volumeMounts", to: "spec.volumeMounts"},
		row{
			from: "spec.authTokenRef",
			note: "LiteLLM presents it to the server: let the server read it from spec.env, or write an MCPRemoteProxy in " +
				"front of it with spec.headers",
		},
		row{from: "spec.authType", note: "see spec.authTokenRef"},
	)
	server.service = litellmService
	return []kind{
		server,
		of("MCPRemoteProxy", false,
			row{from: "spec.url", to: "spec.url", take: remoteURL},
			row{from: "spec.authTokenRef", to: "spec.headers", take: authToken},
			row{from: "spec.authType", take: nothing},
		),
	}
}

// authToken is the credential of a server elsewhere. A header has all of its value in the Secret.
func authToken(c *conversion, to string, value any) string {
	ref, _ := value.(map[string]any)
	name, whole := "Authorization", "Bearer TOKEN"
	if kind, _ := get(c.rest, "spec.authType"); kind == "api_key" {
		name, whole = "X-Api-Key", "the key alone"
	}
	add(c.main, to, map[string]any{"name": name, "valueFrom": map[string]any{
		"secretKeyRef": map[string]any{"name": ref["name"], "key": ref["key"]},
	}})
	c.open = true
	return "the key of the Secret has to hold the whole value of the header " + name + ": " + whole
}
