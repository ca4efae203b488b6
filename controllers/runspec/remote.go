package runspec

import (
	"cmp"
	"net/textproto"
	"slices"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// ForRemote is For of an MCPRemoteProxy, of whose form server is: calls go to the URL
// of spec, and there is no backend.
func ForRemote(server *v1alpha1.MCPServer, spec *v1alpha1.MCPRemoteProxySpec) runconfig.RunConfig {
	run := For(server)
	run.Backend = runconfig.Backend{}
	run.Remote = &runconfig.Remote{
		URL: spec.URL, Transport: string(transport(server.Spec)), AllowedNetworks: Sorted(spec.AllowedNetworks), CABundle: CABundle(spec.CABundleRef),
	}
	for _, h := range spec.Headers {
		header := runconfig.Header{Name: textproto.CanonicalMIMEHeaderKey(h.Name), Value: h.Value}
		if h.ValueFrom != nil {
			from := h.ValueFrom.SecretKeyRef
			header.Secret = &runconfig.Key{Name: from.Name, Key: from.Key}
		}
		run.Remote.Headers = append(run.Remote.Headers, header)
	}
	slices.SortFunc(run.Remote.Headers, func(a, b runconfig.Header) int { return cmp.Compare(a.Name, b.Name) })
	return run
}
