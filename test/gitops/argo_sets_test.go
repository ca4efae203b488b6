package gitops

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// clusterSecret makes a plane known to Argo CD by a name and an address, as `argocd cluster add` does.
func clusterSecret(p *kit.Plane, name, address string) string {
	config, _ := json.Marshal(map[string]any{"tlsClientConfig": map[string]any{ // of bytes, which have no error
		"caData": p.Config.CAData, "certData": p.Config.CertData, "keyData": p.Config.KeyData,
	}})
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: cluster-%s, labels: {argocd.argoproj.io/secret-type: cluster}}\n"+
		"stringData: {name: %[1]s, server: %q, config: %q}\n", name, address, config)
}

// register makes the clusters of argocd-applicationset.yaml known: all are the plane, by names that differ, as Argo CD holds two
// clusters of one address for the same.
func (a *argo) register() {
	a.Helper()
	_, port, _ := strings.Cut(strings.TrimRight(strings.TrimPrefix(a.Config.Host, "https://"), "/"), ":")
	for name, host := range map[string]string{"dev": "127.0.0.1", "staging": "localhost", "prod": "LOCALHOST"} {
		a.Force("argocd", clusterSecret(a.Plane, name, "https://"+host+":"+port))
	}
}

// TestArgoTakesATeamToReady applies argocd-applicationset.yaml: an Application for each environment, one after the other, each when that
// before it is Healthy. Staging waits for a Secret first, and says so.
func TestArgoTakesATeamToReady(t *testing.T) {
	a := newArgo(t)
	a.register()
	for _, environment := range []string{"dev", "prod"} {
		a.admit("team-" + environment)
	}
	revision := a.repo.push("servers")
	set := a.Force("kubectl", a.at(a.repo.read("config/gitops/argocd-applicationset.yaml")))
	a.Cleanup(func() {
		a.Delete(set)
		for _, environment := range []string{"dev", "staging", "prod"} {
			a.AwaitGone(applicationOf("mcp-" + environment))
			a.delete(applicationOf("mcp-"+environment), "background", "team-"+environment)
		}
	})
	a.follows("dev", revision)
	search := &v1alpha1.MCPServer{ObjectMeta: named("search")}
	staging := a.On("team-staging")
	staging.AwaitCondition(search, v1alpha1.ConditionReady, "False")
	if c := ready(search); c.Reason != v1alpha1.ReasonMissingReference {
		t.Errorf("a server without its Secret says %+v", c)
	}
	if prod := applicationOf("mcp-prod"); a.Exists(prod) && saidOf(prod).synced != "" {
		t.Errorf("production was synced before staging was Healthy: %+v", saidOf(prod))
	}
	a.admit("team-staging")
	a.follows("staging", revision)
	a.follows("prod", revision)
	first := &v1alpha1.MCPServer{ObjectMeta: named("search")}
	a.On("team-prod").Read(first)
	staging.Read(search)
	if at := ready(search).LastTransitionTime; first.CreationTimestamp.Before(&at) {
		t.Errorf("production began at %s, before staging was Ready at %s", first.CreationTimestamp, at)
	}
	if first.Spec.Proxy == nil || first.Spec.Proxy.Replicas == nil || *first.Spec.Proxy.Replicas != 2 {
		t.Errorf("production has not two proxies for a server: %+v", first.Spec.Proxy)
	}
}

// follows waits until an environment is synced and healthy, and fails unless kstatus calls its servers current.
func (a *argo) follows(environment, revision string) {
	a.Helper()
	(&argo{Env: a.Env, app: applicationOf("mcp-" + environment)}).healthy(revision)
	for _, name := range []string{"search", "notes"} {
		server := a.On("team-" + environment).Unstructured(&v1alpha1.MCPServer{ObjectMeta: named(name)})
		if is, message, err := kit.Kstatus(server); err != nil || is != "Current" {
			a.Errorf("Argo CD says Healthy while %s of %s is %s: %s %v", name, environment, is, message, err)
		}
	}
}
