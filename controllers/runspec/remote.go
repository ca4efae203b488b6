package runspec

import (
	"cmp"
	"net/textproto"
	"slices"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

func remote(spec *v1alpha1.MCPRemoteProxySpec) *runconfig.Remote {
	r := &runconfig.Remote{
		URL: spec.URL, Transport: string(transport(v1alpha1.Transport(spec.Transport))),
		AllowedNetworks: Sorted(spec.AllowedNetworks), CABundle: CABundle(spec.CABundleRef),
	}
	for _, h := range spec.Headers {
		header := runconfig.Header{Name: textproto.CanonicalMIMEHeaderKey(h.Name), Value: h.Value}
		if h.ValueFrom != nil {
			from := h.ValueFrom.SecretKeyRef
			header.Secret = &runconfig.Key{Name: from.Name, Key: from.Key}
		}
		r.Headers = append(r.Headers, header)
	}
	slices.SortFunc(r.Headers, func(a, b runconfig.Header) int { return cmp.Compare(a.Name, b.Name) })
	return r
}
