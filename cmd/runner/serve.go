package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// proxyConfig fails for policies that cannot be read.
func proxyConfig(s settings, logger *slog.Logger) (proxy.Config, error) {
	guard, err := guard(s.run, logger)
	return proxy.Config{
		Guard:                 guard,
		Path:                  s.run.Proxy.Path,
		Backend:               s.backend,
		AllowedOrigins:        s.run.Proxy.AllowedOrigins,
		Hosts:                 hosts(s.run),
		TrustForwardedHeaders: s.run.Proxy.TrustForwardedHeaders,
		Refusal:               refusal(s.run),
		Log:                   logger,
	}, err
}

// refusal is what callers read while the spec asks for something that this
// version does not do, empty while it does not.
func refusal(run runconfig.RunConfig) string {
	const transport = "spec.transport"
	protections := slices.DeleteFunc(slices.Clone(run.NotEnforced), func(field string) bool { return field == transport })
	switch {
	case len(protections) == 1:
		return fmt.Sprintf("NotEnforced: %s is set, and this version does not enforce it", protections[0])
	case len(protections) > 1:
		return fmt.Sprintf("NotEnforced: %s are set, and this version does not enforce them", strings.Join(protections, ", "))
	case len(run.NotEnforced) > 0:
		return fmt.Sprintf("NotEnforced: %s is %s, and this version does not serve it", transport, run.Backend.Transport)
	}
	return ""
}

// hosts are the names under which clients know the proxy: those of its Service,
// and the public one.
func hosts(run runconfig.RunConfig) []string {
	name := workload.ProxyName(run.Server.Name)
	names := []string{name}
	for _, part := range []string{run.Server.Namespace, "svc", "cluster.local"} {
		name += "." + part
		names = append(names, name)
	}
	if u, err := url.Parse(run.Proxy.PublicURL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	return names
}
