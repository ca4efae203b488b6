package workload

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/golden"
)

func routed(hosts ...string) *v1alpha1.ProxyHTTPRoute {
	return &v1alpha1.ProxyHTTPRoute{ParentRefs: []v1alpha1.RouteParent{{Name: "public"}}, Hostnames: hosts}
}

func publicHost(server *v1alpha1.MCPServer) string {
	public, err := url.Parse(server.Spec.Proxy.PublicURL)
	if err != nil {
		panic(err)
	}
	return public.Hostname()
}

func TestAnHTTPRouteLeadsCallsAndMetadata(t *testing.T) {
	for name, spec := range map[string]string{
		"route": "proxy: {httpRoute: {parentRefs: [{name: public}], hostnames: [mcp.example.com]}}",
		"route-below": `{path: /stream, proxy: {port: 8443, httpRoute: {path: /team/echo, hostnames: [mcp.example.com, mcp.test],
			parentRefs: [{name: public, namespace: gateways, sectionName: https, port: 443}, {group: example.com, kind: Mesh,
			name: m}]}}}`,
	} {
		server := serverWith(t, spec)
		got, err := yaml.Marshal(ProxyHTTPRoute(OwnerOf(server), server.GetProxySpec()))
		if err != nil {
			t.Fatal(err)
		}
		golden.File(t, "testdata/"+name+".yaml", string(got))
	}
	if route := ProxyHTTPRoute(OwnerOf(read(t, "full")), read(t, "full").GetProxySpec()); route != nil {
		t.Errorf("a route that nobody asked for: %v", route)
	}
}

// What is written in publicURL wins. The proxy knows every host under which Gateways lead to it.
func TestAnHTTPRouteIsPublic(t *testing.T) {
	for written, want := range map[string]struct {
		url   string
		hosts []string
	}{
		"":                            {"https://mcp.example.com/echo/mcp", []string{"a.example.com"}},
		"http://mcp.example.com:8080": {"http://mcp.example.com:8080/mcp", []string{"a.example.com"}},
		"https://cdn.example.com/x/":  {"https://cdn.example.com/x/mcp", []string{"a.example.com", "mcp.example.com"}},
	} {
		server := serverWith(t, "proxy: {publicURL: '"+written+"', httpRoute: {path: /echo, parentRefs: [{name: public}], "+
			"hostnames: [mcp.example.com, a.example.com]}}")
		proxy := sound(t, server, options).Content.Proxy
		if got := PublicURL(server.GetProxySpec()); got != want.url {
			t.Errorf("%q: clients call %q, want %q", written, got, want.url)
		}
		if proxy.PublicURL+"/mcp" != want.url && proxy.PublicURL+"mcp" != want.url {
			t.Errorf("%q: the proxy knows %q", written, proxy.PublicURL)
		}
		if diff := cmp.Diff(want.hosts, proxy.Hosts); diff != "" {
			t.Errorf("%q: hosts (-want +got):\n%s", written, diff)
		}
	}
}
