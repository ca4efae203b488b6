package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// proxyConfig fails for policies that cannot be read.
func proxyConfig(s settings, who *oidc.Login, memory *budget.Budget, logger *slog.Logger) (proxy.Config, error) {
	guard, err := guard(s.run, who, memory, logger)
	to, far := s.backend, s.remote
	if s.here.IsValid() { // the proxies' bridges are the backend
		to, far = &url.URL{Scheme: "http", Host: s.here.String()}, nil
	}
	return proxy.Config{
		Guard:                 guard,
		Translate:             translate(s.run.Proxy.TrustForwardedHeaders, bridged(s.run), s.runs, who, memory, logger),
		Path:                  s.run.Proxy.Path,
		BelowPath:             belowPath(s.run.Proxy.PublicURL),
		Backend:               to,
		Dials:                 s.dials,
		Remote:                far,
		AllowedOrigins:        s.run.Proxy.AllowedOrigins,
		Hosts:                 hosts(s.run, s.resolv),
		TrustForwardedHeaders: s.run.Proxy.TrustForwardedHeaders,
		Refusal:               refusal(s.run),
		Sessions:              sessions(s),
		Bridged:               bridged(s.run),
		Memory:                memory,
		Log:                   logger,
	}, err
}

// sessions is how the backend's sessions are found. A server that runs elsewhere keeps its sessions where spec.url
// says.
func sessions(s settings) *proxy.Sessions {
	pods, content := cmp.Or(s.pods, s.backend.Host), s.run.Rendering.Backend
	if s.run.Remote != nil {
		at := sha256.Sum256([]byte(s.run.Remote.Transport + " " + s.run.Remote.URL))
		pods, content = "", hex.EncodeToString(at[:])
	}
	return &proxy.Sessions{
		Keys: s.keys(), Pods: pods, PodPort: s.podPort, Standing: s.standing, Self: s.here, Content: content,
	}
}

// bridged reports whether a bridge is asked, which may start a server first.
func bridged(run runconfig.RunConfig) bool {
	return run.Backend.Bridge != nil || run.Remote != nil && run.Remote.Bridged()
}

// refusal is what callers read while the spec asks for something that this
// version does not do, empty while it does not.
func refusal(run runconfig.RunConfig) string {
	switch fields := run.NotEnforced; len(fields) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("NotEnforced: %s is set, and this version does not enforce it", fields[0])
	default:
		return fmt.Sprintf("NotEnforced: %s are set, and this version does not enforce them", strings.Join(fields, ", "))
	}
}

// belowPath reports whether a publicURL has a path, which comes before that of the proxy.
func belowPath(publicURL string) bool {
	u, err := url.Parse(publicURL)
	return err == nil && strings.Trim(u.Path, "/") != ""
}

// hosts are the names under which clients know the proxy: those of its Service,
// with each domain of the cluster, and the host of publicURL.
func hosts(run runconfig.RunConfig, resolv string) []string {
	name := workload.ProxyName(workload.OwnerIn(run.Server).Key())
	inNamespace := name + "." + run.Server.Namespace
	names := []string{name, inNamespace, inNamespace + ".svc"}
	for _, domain := range domains(resolv, run.Server.Namespace) {
		names = append(names, inNamespace+".svc."+domain)
	}
	if u, err := url.Parse(run.Proxy.PublicURL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	return names
}

// domains are the cluster's DNS domains: the default, which no public name can
// end in, and what kubelet wrote into the search list of the pod's resolv.conf,
// as NAMESPACE.svc.DOMAIN.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#namespaces-of-services
func domains(resolv, namespace string) []string {
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
