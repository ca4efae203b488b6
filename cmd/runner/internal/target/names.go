package target

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Endpoint is the URL at which clients in the cluster call the server.
func (t *Target) Endpoint() string {
	run := t.config.Run
	host := fmt.Sprintf("%s.%s.svc:%d", t.service, run.Server.Namespace, run.Proxy.Port)
	return (&url.URL{Scheme: "http", Host: host, Path: run.Proxy.Path}).String()
}

// fqdn is the name of a Service of the server with the final dot: a resolver asks one question for it, and does not go
// on to names in domains of others where it has no address.
func (t *Target) fqdn(service string) string {
	return service + "." + t.config.Run.Server.Namespace + ".svc." + t.domains[len(t.domains)-1] + "."
}

// hosts are the names under which clients know the proxy: those of its Service,
// with each domain of the cluster, the host of publicURL and those of its HTTPRoute.
func (t *Target) hosts() []string {
	inNamespace := t.service + "." + t.config.Run.Server.Namespace
	names := []string{t.service, inNamespace, inNamespace + ".svc"}
	for _, domain := range t.domains {
		names = append(names, inNamespace+".svc."+domain)
	}
	if host := t.public.Hostname(); host != "" {
		names = append(names, host)
	}
	return append(names, t.config.Run.Proxy.Hosts...)
}

// domainsOf are the cluster's DNS domains: the default, which no public name can
// end in, and what kubelet wrote into the search list of the pod's resolv.conf,
// as NAMESPACE.svc.DOMAIN.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#namespaces-of-services
func domainsOf(resolv, namespace string) []string {
	found := []string{"cluster.local"}
	for line := range strings.Lines(resolv) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, entry := range fields[1:] {
			domain, ok := strings.CutPrefix(strings.TrimSuffix(entry, "."), namespace+".svc.")
			if ok && !slices.Contains(found, domain) {
				found = append(found, domain)
			}
		}
	}
	return found
}
