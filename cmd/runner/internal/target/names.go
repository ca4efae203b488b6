package target

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/controllers/workload"
)

// Endpoint is the URL at which clients in the cluster call the server.
func (t *Target) Endpoint() string {
	host := fmt.Sprintf("%s.%s.svc:%d", workload.ProxyName(workload.OwnerIn(t.Run.Server).Key()), t.Run.Server.Namespace,
		t.Run.Proxy.Port)
	return (&url.URL{Scheme: "http", Host: host, Path: t.Run.Proxy.Path}).String()
}

// whole is the name of a Service of the server with the final dot: a resolver asks one question for it, and does not go
// on to names in domains of others where it has no address.
func (t *Target) whole(service string) string {
	all := t.domains()
	return service + "." + t.Run.Server.Namespace + ".svc." + all[len(all)-1] + "."
}

// belowPath reports whether a publicURL has a path, which comes before that of the proxy.
func belowPath(publicURL string) bool {
	u, err := url.Parse(publicURL)
	return err == nil && strings.Trim(u.Path, "/") != ""
}

// hosts are the names under which clients know the proxy: those of its Service,
// with each domain of the cluster, and the host of publicURL.
func (t *Target) hosts() []string {
	name := workload.ProxyName(workload.OwnerIn(t.Run.Server).Key())
	inNamespace := name + "." + t.Run.Server.Namespace
	names := []string{name, inNamespace, inNamespace + ".svc"}
	for _, domain := range t.domains() {
		names = append(names, inNamespace+".svc."+domain)
	}
	if u, err := url.Parse(t.Run.Proxy.PublicURL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	return names
}

// domains are the cluster's DNS domains: the default, which no public name can
// end in, and what kubelet wrote into the search list of the pod's resolv.conf,
// as NAMESPACE.svc.DOMAIN.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#namespaces-of-services
func (t *Target) domains() []string {
	found := []string{"cluster.local"}
	for line := range strings.Lines(t.Resolv) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, entry := range fields[1:] {
			domain, ok := strings.CutPrefix(strings.TrimSuffix(entry, "."), t.Run.Server.Namespace+".svc.")
			if ok && !slices.Contains(found, domain) {
				found = append(found, domain)
			}
		}
	}
	return found
}
