package conversion

import (
	"net/netip"
	"net/url"
	"strings"
)

// toolhiveRemote has the rows of a remote server that servers of images lack.
func toolhiveRemote() []row {
	return []row{
		{from: "spec.remoteUrl", to: "spec.url", take: remoteURL},
		{from: "spec.remoteURL", to: "spec.url", take: remoteURL}, // of earlier releases
		{
			from: "spec.allowPrivateEndpoint", granted: false,
			note: "write the networks that the proxy may connect to into spec.allowedNetworks",
		},
		{from: "spec.podTemplateSpec", to: "spec.proxy.podTemplate", take: remotePodTemplate},
		{from: "spec.transport", to: "spec.transport"},
		{from: "spec.headerForward.addPlaintextHeaders", to: "spec.headers", take: plainHeaders},
		{from: "spec.headerForward.addHeadersFromSecret", to: "spec.headers", take: secretHeaders},
		{from: "spec.resources.limits", to: "spec.proxy.resources.limits"},
		{from: "spec.resources.requests", to: "spec.proxy.resources.requests"},
		{from: "spec.serviceAccount", note: "the proxy runs as an account of its own, which Freehold makes"},
		{
			from: "spec.toolConfigRef", guards: true,
			note: "write Cedar policies in spec.authzConfig that permit call_tool for the tools that callers may use",
		},
		{
			from: "spec.externalAuthConfigRef", guards: true,
			note: "write the server's credentials into spec.headers, from a Secret: tokens are not exchanged. If its type is " +
				"embeddedAuthServer, callers logged in by it: write an MCPOIDCConfig, and spec.oidcConfigRef",
		},
	}
}

// toolhiveEntry are the rows of an entry alone, which ToolHive's virtual servers call without a proxy.
func toolhiveEntry() []row {
	return []row{
		{from: "spec.caBundleRef.configMapRef.name", to: "spec.caBundleRef.name"},
		{from: "spec.caBundleRef.configMapRef.key", to: "spec.caBundleRef.key"},
	}
}

// remotePodTemplate is laid over the proxy's pods, whose container has another name here.
func remotePodTemplate(c *conversion, to string, value any) string {
	template, isMap := value.(map[string]any)
	if !isMap {
		return "it is no pod template"
	}
	containers, _ := get(template, "spec.containers")
	for _, one := range items(containers) {
		if one["name"] == "toolhive" {
			one["name"] = "proxy"
		}
	}
	set(c.main, to, template)
	return ""
}

// remoteURL sets the URL, and says what the proxy needs to connect to it.
func remoteURL(c *conversion, to string, value any) string {
	set(c.main, to, value)
	at, err := url.Parse(text(value))
	if err != nil {
		return "it is no URL"
	}
	var said []string
	if at.Scheme == "http" {
		set(c.main, "spec.allowHTTP", true)
		said = append(said, "calls and headers cross the network unencrypted: write https, and remove spec.allowHTTP")
	}
	if inside(at.Hostname()) {
		said = append(said, "the proxy connects to public addresses only: write the network of this one into "+
			"spec.allowedNetworks")
	}
	return strings.Join(said, "; ")
}

func inside(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.IsPrivate() || address.IsLoopback() || address.IsLinkLocalUnicast()
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".local") ||
		strings.HasSuffix(host, ".internal")
}

func plainHeaders(c *conversion, to string, value any) string {
	headers, _ := value.(map[string]any)
	for _, name := range sorted(headers) {
		add(c.main, to, map[string]any{"name": name, "value": headers[name]})
	}
	return ""
}

func secretHeaders(c *conversion, to string, value any) string {
	for _, header := range items(value) {
		ref, _ := header["valueSecretRef"].(map[string]any)
		add(c.main, to, map[string]any{"name": header["headerName"], "valueFrom": map[string]any{
			"secretKeyRef": map[string]any{"name": ref["name"], "key": ref["key"]},
		}})
	}
	return ""
}
