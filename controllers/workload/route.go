package workload

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// wellKnown is where the metadata of a login is, before the path of what it is for (RFC 9728, section 3.1). Several
// clients look nowhere else.
const wellKnown = "/.well-known/oauth-protected-resource"

// httpRoute is an intent about an HTTPRoute of the Gateway API.
type httpRoute struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`

	Spec fields `json:"spec"`
}

type fields map[string]any

// IsApplyConfiguration marks an intent.
func (*httpRoute) IsApplyConfiguration() {}

func (r *httpRoute) WithLabels(entries map[string]string) *httpRoute {
	r.ObjectMetaApplyConfiguration.WithLabels(entries)
	return r
}

func (r *httpRoute) WithAnnotations(entries map[string]string) *httpRoute {
	r.ObjectMetaApplyConfiguration.WithAnnotations(entries)
	return r
}

func (r *httpRoute) WithOwnerReferences(values ...*metav1ac.OwnerReferenceApplyConfiguration) *httpRoute {
	r.ObjectMetaApplyConfiguration.WithOwnerReferences(values...)
	return r
}

// ProxyHTTPRoute leads clients from Gateways to the proxy: their calls, and what they ask for before a login. Neither
// has a time-out, because streams stay open. It is nil where the spec asks for none. It is not content.
//
// The lists of an HTTPRoute are atomic: what the API server fills into an item is stated here too.
// https://gateway-api.sigs.k8s.io/reference/spec/#httproute
func ProxyHTTPRoute(owner Owner, spec *v1alpha1.ProxyWorkloadSpec) runtime.ApplyConfiguration {
	if spec.Proxy == nil || spec.Proxy.HTTPRoute == nil {
		return nil
	}
	asked, name, path := spec.Proxy.HTTPRoute, ProxyName(owner.Key()), runspec.Path(spec.Path)
	leads := func(from string) fields {
		return fields{
			"matches":  []fields{{"path": fields{"type": "PathPrefix", "value": from}}},
			"timeouts": fields{"request": "0s", "backendRequest": "0s"},
			"backendRefs": []fields{{
				"group": "", "kind": contract.Service.Kind, "name": name, "port": runspec.ProxyPort(spec.Proxy), "weight": 1,
			}},
		}
	}
	calls := leads(asked.Path + path)
	if asked.Path != "" {
		calls["filters"] = []fields{{
			"type":       "URLRewrite",
			"urlRewrite": fields{"path": fields{"type": "ReplacePrefixMatch", "replacePrefixMatch": path}},
		}}
	}
	parents := make([]fields, 0, len(asked.ParentRefs))
	for _, parent := range asked.ParentRefs {
		parents = append(parents, parentRef(parent))
	}
	route := &httpRoute{
		ObjectMetaApplyConfiguration: metav1ac.ObjectMeta().WithName(name).WithNamespace(owner.Namespace),
		Spec: fields{
			"parentRefs": parents, "hostnames": asked.Hostnames,
			"rules": []fields{calls, leads(wellKnown + asked.Path + path)},
		},
	}
	route.WithKind(contract.HTTPRoute.Kind).WithAPIVersion(contract.HTTPRoute.GroupVersion().String())
	return child(route, owner, ComponentProxy)
}

func parentRef(parent v1alpha1.RouteParent) fields {
	ref := fields{
		"group": cmp.Or(parent.Group, contract.HTTPRoute.Group), "kind": cmp.Or(parent.Kind, "Gateway"), "name": parent.Name,
	}
	if parent.Namespace != "" {
		ref["namespace"] = parent.Namespace
	}
	if parent.SectionName != "" {
		ref["sectionName"] = parent.SectionName
	}
	if parent.Port != 0 {
		ref["port"] = parent.Port
	}
	return ref
}
