package gitops

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// clusterSecret makes a plane known to Argo CD by a name and an address, as `argocd cluster add` does.
func clusterSecret(p *kit.Plane, name, address string) string {
	config, _ := json.Marshal(map[string]any{"tlsClientConfig": map[string]any{ // of bytes, which have no error
		"caData": p.Config.CAData, "certData": p.Config.CertData, "keyData": p.Config.KeyData,
	}})
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: cluster-%s, labels: "+
		"{argocd.argoproj.io/secret-type: cluster}}\n"+
		"stringData: {name: %[1]s, server: %q, config: %q}\n", name, address, config)
}

// register makes the clusters of argocd-applicationset.yaml known: all are the plane, by names that differ, as Argo CD
// holds two clusters of one address for the same.
func (a *argo) register() {
	a.Helper()
	_, port, _ := strings.Cut(strings.TrimRight(strings.TrimPrefix(a.Config.Host, "https://"), "/"), ":")
	for name, host := range map[string]string{"dev": "127.0.0.1", "staging": "localhost", "prod": "LOCALHOST"} {
		a.Force("argocd", clusterSecret(a.Plane, name, "https://"+host+":"+port))
	}
}

// TestArgoTakesATeamToReady applies argocd-applicationset.yaml: an Application for each environment, one after the
// other, each when that before it is Healthy. Staging waits for a Secret first, and says so.
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
	staging.Await(search, "a server without its Secret says so", func() error {
		if c := ready(search); c == nil || c.Status != "False" || c.Reason != v1alpha1.ReasonMissingReference {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
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
	a.rolls()
}

// rolls commits what changes the servers of all environments, and holds that staging waits until dev, which Argo CD has
// compared with the commit before, is Healthy with it.
func (a *argo) rolls() {
	a.Helper()
	dev, staging, image := applicationOf("mcp-dev"), applicationOf("mcp-staging"), "registry.example.com/team/notes:main"
	a.Kubelet.Image(image, kit.NeverReady())
	a.Cleanup(func() { a.Kubelet.Image(image, kit.Runs()) })
	a.repo.edit(base+"notes.yaml", "memory: 128Mi", "memory: 192Mi")
	revision := a.repo.push("more memory")
	a.look(dev)
	(&argo{Env: a.Env, app: dev}).says(revision, "Synced", "Progressing", "Succeeded")
	a.look(staging)
	a.withheld(dev, "staging was synced before dev was Healthy", func() bool {
		a.Read(staging)
		return saidOf(staging).synced == revision
	})
	a.Kubelet.Image(image, kit.Runs())
	a.follows("dev", revision)
	a.follows("staging", revision)
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

// TestArgoRaisesEnvironmentsInOrder applies argocd-apps.yaml to a folder with argocd-environments.yaml. A commit raises
// all three Applications, and each stays as it is while the one before is not Healthy with the new revision.
func TestArgoRaisesEnvironmentsInOrder(t *testing.T) {
	a := newArgo(t)
	a.register()
	environments := []string{"dev", "staging", "prod"}
	for _, environment := range environments {
		a.admit("team-" + environment)
	}
	recipe := a.at(a.repo.read("config/gitops/argocd-environments.yaml"))
	if strings.Count(recipe, "targetRevision: 1.0.0") != len(environments) {
		t.Fatalf("argocd-environments.yaml does not pin each Application:\n%s", recipe)
	}
	pin := func(servers string) string {
		a.repo.write("apps/environments.yaml",
			strings.ReplaceAll(recipe, "targetRevision: 1.0.0", "targetRevision: "+servers))
		return a.repo.push("all environments at " + servers)
	}
	old := a.repo.push("servers")
	a.app = applicationOf("mcp")
	a.Cleanup(func() {
		a.Delete(a.app)
		a.AwaitGone(a.app)
		for _, environment := range environments {
			a.delete(applicationOf("mcp-"+environment), "background", "team-"+environment)
		}
	})
	first := pin(old)
	a.Force("kubectl", a.at(a.repo.read("config/gitops/argocd-apps.yaml")))
	for _, environment := range environments {
		a.follows(environment, old)
	}
	a.healthy(first)

	image := "registry.example.com/team/notes:main" // that of dev alone
	a.Kubelet.Image(image, kit.NeverReady())
	a.Cleanup(func() { a.Kubelet.Image(image, kit.Runs()) })
	a.repo.edit(base+"notes.yaml", "memory: 128Mi", "memory: 192Mi")
	raised := a.repo.push("more memory")
	second := pin(raised)
	a.look(a.app)
	a.waits(second, "waiting for healthy state of argoproj.io/Application/mcp-dev")
	a.withheld(applicationOf("mcp-dev"), "staging was raised before dev was Healthy", func() bool {
		staging := applicationOf("mcp-staging")
		a.Read(staging)
		is, _, _ := unstructured.NestedString(staging.Object, "spec", "source", "targetRevision")
		return is != old
	})
	a.Kubelet.Image(image, kit.Runs())
	for _, environment := range environments {
		a.follows(environment, raised)
	}
	a.healthy(second)
}
