package main

import (
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// The name of the backend's pods is whole: no resolver looks for it in a domain that others answer for.
func TestTheNameOfThePodsIsWhole(t *testing.T) {
	run := runconfig.RunConfig{}
	run.Server.Name, run.Server.Namespace = "echo", "team"
	const inACluster = "search team.svc.k8s.example svc.k8s.example k8s.example corp.example\n" +
		"nameserver 10.0.0.10\noptions ndots:5\n"
	for resolv, want := range map[string]string{
		"":         "echo-backend-headless.team.svc.cluster.local.",
		inACluster: "echo-backend-headless.team.svc.k8s.example.",
	} {
		if got := (settings{run: run, resolv: resolv}).whole("echo-backend-headless"); got != want {
			t.Errorf("with %q it is %s, not %s", resolv, got, want)
		}
	}
}
