package conversion

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Stage of a move in which clients keep the URL of the other operator's Service.
type Stage string

const (
	// Prepare makes everything of ours while theirs still serves: suspended.
	Prepare Stage = "prepare"
	// Switch has ours serve, under the Service's old name too, after theirs is gone.
	Switch Stage = "switch"
)

// service is the Service of another operator by which clients call a server.
type service struct {
	name string
	port int64
}

// toolhiveService is that of https://github.com/stacklok/toolhive/tree/main/cmd/thv-operator, of all its kinds. A
// server and a remote proxy may have one name, and their Services have two.
func toolhiveService(u *unstructured.Unstructured) service {
	const fallback = 8080
	proxyPort, _ := get(u.Object, "spec.proxyPort")
	older, _ := get(u.Object, "spec.port")
	suffix := "-proxy"
	if u.GetKind() == "MCPRemoteProxy" {
		suffix = "-remote-proxy"
	}
	return service{"mcp-" + u.GetName() + suffix, cmp.Or(number(proxyPort), number(older), fallback)}
}

// kmcpService is that of https://github.com/kagent-dev/kmcp.
func kmcpService(u *unstructured.Unstructured) service {
	port, _ := get(u.Object, "spec.deployment.port")
	return service{u.GetName(), cmp.Or(number(port), kmcpDefaultPort)}
}

// litellmService is that of https://github.com/home-operations/litellm-operator.
func litellmService(u *unstructured.Unstructured) service {
	const fallback = 8080
	port, _ := get(u.Object, "spec.workload.port")
	return service{u.GetName(), cmp.Or(number(port), fallback)}
}

// lifecycleService is that of https://github.com/kubernetes-sigs/mcp-lifecycle-operator.
func lifecycleService(u *unstructured.Unstructured) service {
	const fallback = 8080
	port, _ := get(u.Object, "spec.config.port")
	return service{u.GetName(), cmp.Or(number(port), fallback)}
}

// adopt changes what was made of an object for a stage of its move.
// Clients of an object without a Service, which says where a server is, called that.
func adopt(
	results []Result, of func(*unstructured.Unstructured) service, source *unstructured.Unstructured, stage Stage,
) []Result {
	main := &results[len(results)-1]
	var old service
	if of != nil {
		old = of(source)
		known(main, old)
	}
	if stage == Prepare {
		set(main.Object, "spec.suspend", true)
		main.Remarks = append(main.Remarks,
			"spec.suspend is true until the other operator's workload is gone, so that the two never serve at once")
		return results
	}
	if of == nil {
		return results
	}
	return append(results, Result{Object: underOldName(main.Object, old), From: main.From})
}

// known has the proxy take requests to the Service's old name. The host of
// publicURL is the one name that it knows beside those of its own Service.
func known(main *Result, old service) {
	if url, stated := get(main.Object, "spec.proxy.publicURL"); stated {
		main.Remarks = append(main.Remarks,
			fmt.Sprintf("spec.proxy.publicURL: %q -- clients that open event streams have to use this host, and not that of "+
				"Service %s", url, old.name))
		return
	}
	namespace, _ := get(main.Object, "metadata.namespace")
	if text(namespace) == "" {
		main.Remarks = append(main.Remarks,
			fmt.Sprintf("spec.proxy.publicURL -- write the URL that clients use, with the host of Service %s", old.name))
		return
	}
	set(main.Object, "spec.proxy.publicURL",
		fmt.Sprintf("http://%s.%s.svc.cluster.local:%d", old.name, namespace, old.port))
}

// underOldName is a Service of the old name and port in front of our proxies. It is the user's: Freehold does not
// know it. Applied beside the other operator's Service, whose port leads elsewhere, it is refused with a conflict.
func underOldName(main map[string]any, old service) map[string]any {
	metadata, _ := main["metadata"].(map[string]any)
	key := text(metadata["name"])
	if main["kind"] == "MCPRemoteProxy" {
		key += ".remote"
	}
	own := map[string]any{"name": old.name}
	if namespace := text(metadata["namespace"]); namespace != "" {
		own["namespace"] = namespace
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": own,
		"spec": map[string]any{
			"selector": map[string]any{"freehold.dev/server": key, "app.kubernetes.io/component": "proxy"},
			"ports":    []any{map[string]any{"name": "mcp", "port": old.port, "targetPort": "mcp", "appProtocol": "http"}},
		},
	}
}
