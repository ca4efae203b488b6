// Package runspec turns the spec of an object with a proxy into the run config that its runner reads. Start with For.
// It is pure.
package runspec

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// The defaults of the schema, for a server that did not pass through it.
const (
	defaultPort      = 8080
	defaultProxyPort = 8000
	defaultPath      = "/mcp"
	defaultSessions  = 100
)

// For returns the run config of an object without its Workload, which a claim adds, its Rendering, which the pod
// templates add, and the checks of calls. Replicas, suspension, group, labels and the proxy's Service are left out:
// changing them restarts nothing.
func For(object kinds.Object) runconfig.RunConfig {
	run := runconfig.RunConfig{Version: runconfig.Version, Server: Server(object), Proxy: proxy(object.GetProxySpec())}
	switch o := object.(type) {
	case *v1alpha1.MCPServer:
		run.Backend = backend(o.Spec.DeepCopy())
	case *v1alpha1.MCPRemoteProxy:
		run.Remote = remote(&o.Spec)
	}
	return run
}

// Server identifies the object. The kind MCPServer is left out.
func Server(object kinds.Object) runconfig.Server {
	kind := kinds.Of(object).Object.Kind
	if kind == contract.MCPServer.Kind {
		kind = ""
	}
	return runconfig.Server{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID()),
	}
}

func backend(spec *v1alpha1.MCPServerSpec) runconfig.Backend {
	b := runconfig.Backend{
		Image:              spec.Image,
		Command:            spec.Command,
		Args:               spec.Args,
		Env:                spec.Env,
		EnvFrom:            spec.EnvFrom,
		Port:               cmp.Or(spec.Port, defaultPort),
		Path:               Path(spec.Path),
		Transport:          string(transport(spec.Transport)),
		Volumes:            spec.Volumes,
		VolumeMounts:       spec.VolumeMounts,
		ImagePullPolicy:    spec.ImagePullPolicy,
		ImagePullSecrets:   spec.ImagePullSecrets,
		ServiceAccountName: spec.ServiceAccountName,
		PodTemplate:        Raw(spec.PodTemplate),
	}
	if spec.Resources != nil {
		b.Resources = runconfig.Resources{Limits: spec.Resources.Limits, Requests: spec.Resources.Requests}
	}
	b.VolumeClaimTemplates = claims(spec.VolumeClaimTemplates)
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		b.ClaimsWhenDeleted = policy.WhenDeleted
	}
	b.Bridge = bridge(spec)
	b.RestartedAt = RestartedAt(spec.RestartedAt)
	return b
}

// RestartedAt is spec.restartedAt as RFC 3339 in UTC, to the second, so that another time zone restarts nothing;
// empty if unset.
func RestartedAt(at *metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

func claims(templates []v1alpha1.VolumeClaimTemplate) []corev1.PersistentVolumeClaimTemplate {
	var out []corev1.PersistentVolumeClaimTemplate
	for _, t := range templates {
		out = append(out, corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: t.Metadata.Name, Labels: t.Metadata.Labels, Annotations: t.Metadata.Annotations},
			Spec:       t.Spec,
		})
	}
	return out
}

// bridge describes the bridge of a backend that does not speak streamable HTTP, without its image, which the operator
// adds.
func bridge(spec *v1alpha1.MCPServerSpec) *runconfig.Bridge {
	switch transport(spec.Transport) {
	case v1alpha1.TransportStdio:
		stdio := cmp.Or(spec.Stdio, &v1alpha1.StdioSpec{})
		if stdio.Process == v1alpha1.StdioShared {
			return &runconfig.Bridge{Shared: true, IdleSeconds: stdio.SessionIdleSeconds}
		}
		return &runconfig.Bridge{Sessions: cmp.Or(stdio.MaxSessions, defaultSessions), IdleSeconds: stdio.SessionIdleSeconds}
	case v1alpha1.TransportSSE:
		return &runconfig.Bridge{}
	default:
		return nil
	}
}

func proxy(spec *v1alpha1.ProxyWorkloadSpec) runconfig.Proxy {
	p := runconfig.Proxy{Port: ProxyPort(spec.Proxy), Path: Path(spec.Path)}
	if spec.Proxy == nil {
		return p
	}
	p.PublicURL, p.GraceSeconds = PublicURL(spec.Proxy), spec.Proxy.TerminationGracePeriodSeconds
	p.Hosts = hosts(spec.Proxy)
	p.NoAudit = spec.Proxy.Audit == v1alpha1.AuditDisabled
	p.TrustForwardedHeaders = spec.Proxy.TrustForwardedHeaders
	p.ClientHost = spec.Proxy.HostHeader == v1alpha1.HostClient
	p.AllowedOrigins = Sorted(spec.Proxy.AllowedOrigins)
	if probe := spec.Proxy.Probe; probe != nil && *probe != (v1alpha1.ProxyProbe{}) {
		p.Probe = &runconfig.Probe{
			PeriodSeconds: probe.PeriodSeconds, TimeoutSeconds: probe.TimeoutSeconds,
			FailureThreshold: probe.FailureThreshold,
		}
	}
	return p
}

// PublicURL is where clients outside the cluster reach a proxy, before spec.path: publicURL, or else what its HTTPRoute
// publishes, empty for neither. A Gateway that serves credentials ends TLS; for any other the user writes publicURL.
func PublicURL(spec *v1alpha1.ProxySpec) string {
	if route := spec.HTTPRoute; spec.PublicURL == "" && route != nil && len(route.Hostnames) > 0 {
		return "https://" + route.Hostnames[0] + route.Path
	}
	return spec.PublicURL
}

// hosts are the host names of the HTTPRoute that the public URL does not have.
func hosts(spec *v1alpha1.ProxySpec) (more []string) {
	if spec.HTTPRoute == nil {
		return nil
	}
	public, err := url.Parse(PublicURL(spec))
	for _, host := range Sorted(spec.HTTPRoute.Hostnames) {
		if err != nil || host != public.Hostname() {
			more = append(more, host)
		}
	}
	return more
}

// ProxyPort is where a proxy listens.
func ProxyPort(spec *v1alpha1.ProxySpec) int32 {
	return cmp.Or(cmp.Or(spec, &v1alpha1.ProxySpec{}).Port, defaultProxyPort)
}

func transport(stated v1alpha1.Transport) v1alpha1.Transport {
	return cmp.Or(stated, v1alpha1.TransportStreamableHTTP)
}

// Path is spec.path, or its default.
func Path(stated string) string { return cmp.Or(stated, defaultPath) }

// Raw is the JSON of an overlay, nil if empty.
func Raw(overlay *runtime.RawExtension) []byte {
	if overlay == nil {
		return nil
	}
	raw := bytes.TrimSpace(overlay.Raw)
	if len(raw) == 0 || string(raw) == "null" || string(raw) == "{}" {
		return nil
	}
	return raw
}

// Sorted is a set: another order must restart nothing.
func Sorted(items []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(items)))
}

const defaultCAKey = "ca.crt"

// CABundle is a reference to certificates, nil for none.
func CABundle(ref *v1alpha1.CABundleReference) *runconfig.Key {
	if ref == nil {
		return nil
	}
	return &runconfig.Key{Name: ref.Name, Key: cmp.Or(ref.Key, defaultCAKey)}
}
