package conversion

import "fmt"

// ownReadiness is what to write instead of a readiness probe.
const ownReadiness = "Freehold has a readiness probe of its own, of spec.port: initialDelaySeconds, timeoutSeconds " +
	"and failureThreshold of it can be set in spec.podTemplate"

func lifecycle() []kind {
	return []kind{{
		product: "mcp-lifecycle-operator", group: "mcp.x-k8s.io", versions: []string{"v1alpha1", "v1beta1"},
		kind: "MCPServer", to: "MCPServer", service: lifecycleService,
		rows: []row{
			{from: "spec.source.type", granted: "ContainerImage", note: "only images can be run"},
			{from: "spec.source.containerImage.ref", to: "spec.image"},
			{from: "spec.source.containerImage.pullPolicy", to: "spec.imagePullPolicy"},
			{from: "spec.source.containerImage.imagePullSecrets", to: "spec.imagePullSecrets"},
			{from: "spec.config.port", to: "spec.port"},
			{from: "spec.config.path", to: "spec.path"},
			{from: "spec.config.arguments", to: "spec.args"},
			{from: "spec.config.env", to: "spec.env"},
			{from: "spec.config.envFrom", to: "spec.envFrom"},
			{from: "spec.config.storage", to: "spec.volumes and spec.volumeMounts", take: storage},
			{from: "spec.runtime.replicas", to: "spec.replicas", note: "leave it out if an autoscaler sets it"},
			{from: "spec.runtime.security.serviceAccountName", to: "spec.serviceAccountName"},
			{from: "spec.runtime.security.podSecurityContext", to: "spec.podTemplate.spec.securityContext"},
			{
				from: "spec.runtime.security.securityContext", to: "spec.podTemplate.spec.containers[name=server].securityContext",
				take: inContainer("securityContext"),
			},
			{from: "spec.runtime.resources.limits", to: "spec.resources.limits"},
			{from: "spec.runtime.resources.requests", to: "spec.resources.requests"},
			{from: "spec.runtime.resources.claims", note: "MCPServer has no such field"},
			{
				from: "spec.runtime.health.livenessProbe", to: "spec.podTemplate.spec.containers[name=server].livenessProbe",
				take: inContainer("livenessProbe"),
			},
			{
				from: "spec.runtime.health.readinessProbe",
				note: ownReadiness,
			},
			{
				from: "spec.mcp.stateless", granted: true,
				note: "with more than one replica, see the field description of spec.replicas about sessions",
			},
			{
				from: "spec.extraLabels", to: "spec.podTemplate.metadata.labels",
				note: "the proxy's Service has labels of its own: spec.proxy.service.labels",
			},
			{
				from: "spec.extraAnnotations", to: "spec.podTemplate.metadata.annotations",
				note: "the proxy's Service has annotations of its own: spec.proxy.service.annotations",
			},
			{
				from: "spec.network.ingressFrom", guards: true,
				note: "write a NetworkPolicy that selects the pods with the labels freehold.dev/server: NAME and " +
					"app.kubernetes.io/component: proxy",
			},
			{from: "spec.network.egressTo", to: "spec.network.egress", take: egressTo},
			{from: "spec.network.egressPorts", to: "spec.network.egress", take: egressPorts},
			{from: "spec.network.dnsEgressPeer", note: "port 53 stays allowed to every address"},
			{
				from: "spec.transport.tls.enabled", granted: false,
				note: "the proxy calls the image without TLS: let the image listen without it",
			},
			{from: "spec.transport.tls", note: "the proxy calls the image without TLS"},
			{from: "spec.gateway", note: "write an HTTPRoute to the Service NAME-proxy, and its URL into spec.proxy.publicURL"},
		},
	}}
}

// storage turns mounts with their sources into volumes and mounts.
func storage(c *conversion, _ string, value any) string {
	for i, mount := range items(value) {
		name := fmt.Sprintf("storage-%d", i+1)
		source, _ := mount["source"].(map[string]any)
		volume := map[string]any{"name": name}
		for _, field := range []string{"configMap", "secret", "emptyDir"} {
			if v, found := source[field]; found {
				volume[field] = v
			}
		}
		ours := map[string]any{"name": name, "mountPath": mount["path"]}
		switch permissions := text(mount["permissions"]); permissions {
		case "ReadWrite":
		case "RecursiveReadOnly":
			ours["readOnly"], ours["recursiveReadOnly"] = true, "Enabled"
		default:
			ours["readOnly"] = true
		}
		add(c.main, "spec.volumes", volume)
		add(c.main, "spec.volumeMounts", ours)
	}
	return ""
}
