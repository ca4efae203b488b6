package target

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// The name of the backend's pods is whole: no resolver looks for it in a domain that others answer for.
func TestTheNameOfThePodsIsWhole(t *testing.T) {
	run := runconfig.Target{}
	run.Server.Name, run.Server.Namespace = "echo", "team"
	const inACluster = "search team.svc.k8s.example svc.k8s.example k8s.example corp.example\n" +
		"nameserver 10.0.0.10\noptions ndots:5\n"
	for resolv, want := range map[string]string{
		"":         "echo-backend-headless.team.svc.cluster.local.",
		inACluster: "echo-backend-headless.team.svc.k8s.example.",
	} {
		if got := made(t, Config{Run: run, Resolv: resolv}).fqdn("echo-backend-headless"); got != want {
			t.Errorf("with %q it is %s, not %s", resolv, got, want)
		}
	}
}

func TestRefusal(t *testing.T) {
	for want, fields := range map[string][]string{
		"": nil,
		"NotEnforced: spec.oidcConfigRef is set, and this version does not enforce it": {
			"spec.oidcConfigRef",
		},
		"NotEnforced: spec.oidcConfigRef, spec.toolConfigRef are set, and this version does not enforce them": {
			"spec.oidcConfigRef", "spec.toolConfigRef",
		},
	} {
		run := sample(func(r *runconfig.Target) { r.NotEnforced = fields })
		if got, _, err := made(t, Config{Run: run}).Proxy(slog.New(slog.DiscardHandler)); err != nil || got.Refusal != want {
			t.Errorf("%v: got %q, %v", fields, got.Refusal, err)
		}
	}
}

func TestNamesOfOurs(t *testing.T) {
	run := sample(func(r *runconfig.Target) { r.Proxy.PublicURL = "https://mcp.example.com:8443/echo" })
	for resolv, domains := range map[string][]string{
		"": {"cluster.local"},
		"search team.svc.cluster.local svc.cluster.local cluster.local\n":          {"cluster.local"},
		"nameserver 10.0.0.10\nsearch team.svc.k8s.example. svc.k8s.example lan\n": {"cluster.local", "k8s.example"},
		"search other.svc.evil.example svc.k8s.example\noptions ndots:5\n":         {"cluster.local"},
	} {
		want := []string{"echo-proxy", "echo-proxy.team", "echo-proxy.team.svc"}
		for _, domain := range domains {
			want = append(want, "echo-proxy.team.svc."+domain)
		}
		if got := made(t, Config{Run: run, Resolv: resolv}).hosts(); !slices.Equal(got, append(want, "mcp.example.com")) {
			t.Errorf("%q: got %v", resolv, got)
		}
	}
	for _, public := range []string{run.Proxy.PublicURL, ""} {
		at := Config{Run: sample(func(r *runconfig.Target) { r.Proxy.PublicURL = public })}
		serves, _, err := made(t, at).Proxy(slog.New(slog.DiscardHandler))
		if got := serves.Public.String(); err != nil || got != public {
			t.Errorf("clients call %s, not %q: %v", got, public, err)
		}
	}
	to := made(t, Config{Run: run})
	first := to.slotAt(workload.Slot1, v1alpha1.BackendContent{}).upstream.Host()
	if first != "echo-backend:9443" || to.Endpoint() != "http://echo-proxy.team.svc:8000/mcp" {
		t.Errorf("got backend %s, endpoint %s", first, to.Endpoint())
	}
}
