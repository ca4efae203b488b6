package gitops

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// register makes the clusters of argocd-applicationset.yaml known to Argo CD, as `argocd cluster add` does: all are the plane, by
// names that differ, as Argo CD holds two clusters of one address for the same.
func (a *argo) register() {
	a.Helper()
	config := map[string]any{"tlsClientConfig": map[string]any{"caData": a.Config.CAData, "certData": a.Config.CertData, "keyData": a.Config.KeyData}}
	text, err := json.Marshal(config)
	a.Must(err, "writing the configuration of a cluster")
	_, port, _ := strings.Cut(strings.TrimRight(strings.TrimPrefix(a.Config.Host, "https://"), "/"), ":")
	for name, host := range map[string]string{"dev": "127.0.0.1", "staging": "localhost", "prod": "LOCALHOST"} {
		a.Force("argocd", fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: cluster-%s, labels: {argocd.argoproj.io/secret-type: cluster}}\n"+
			"stringData: {name: %[1]s, server: \"https://%s:%s\", config: %q}\n", name, host, port, text))
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

// TestArgoHoldsTheOperator applies argocd-operator.yaml with the chart of this repository, over an installation of it: nothing is ever
// out of sync, by server-side apply and by the client-side apply that Argo CD does without the option.
func TestArgoHoldsTheOperator(t *testing.T) {
	a := newArgo(t)
	a.withChart()
	revision := a.repo.push("the chart")
	text := a.operator()
	a.app = applicationOf("freehold")
	a.Cleanup(func() { a.Delete(a.app); a.AwaitGone(a.app) }) // and leaves the operator
	system := envOf{a.On(kit.SystemNamespace)}
	for _, options := range []string{"ServerSideApply=true, CreateNamespace=true", "CreateNamespace=true"} {
		if options != "ServerSideApply=true, CreateNamespace=true" {
			text = strings.Replace(text, "ServerSideApply=true, ", "", 1)
			a.repo.edit("config/chart/values.yaml", "commonAnnotations: {", `commonAnnotations: {round: "2", `)
			revision = a.repo.push("another annotation of everything")
		}
		a.Force("kubectl", text)
		a.look(a.app)
		a.healthy(revision)
		a.quiet(system, options)
		for _, kind := range []string{"CustomResourceDefinition", "ValidatingAdmissionPolicy", "Deployment"} {
			if !a.holds(kind) {
				t.Errorf("the Application holds no %s", kind)
			}
		}
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(kindCRD)
	crd.SetName("mcpservers.freehold.dev")
	a.Read(crd)
	if size := len(crd.GetAnnotations()[corev1.LastAppliedConfigAnnotation]); size == 0 {
		t.Errorf("Argo CD did not apply the CRDs on the client's side: %v", crd.GetAnnotations())
	}
}

// operator is argocd-operator.yaml, with the chart of the story's repository.
func (a *argo) operator() string {
	a.Helper()
	text := a.repo.read("config/gitops/argocd-operator.yaml")
	from, rest, _ := strings.Cut(text, "    repoURL: ")
	_, to, found := strings.Cut(rest, "  destination: ")
	if !found {
		a.Fatalf("argocd-operator.yaml has no source:\n%s", text)
	}
	return from + "    repoURL: " + a.repo.url + "\n    path: config/chart\n    targetRevision: main\n  destination: " + to
}

// TestArgoMakesTheOperatorFirst applies argocd-apps.yaml to a folder with argocd-operator.yaml and the Application of docs/gitops.md:
// while the operator's pods are not ready there is no Application of servers, and then all are Healthy.
// Argo CD calls the operator's Healthy also before its first sync, as some of its objects are on the plane already.
func TestArgoMakesTheOperatorFirst(t *testing.T) {
	a := newArgo(t)
	a.withChart()
	a.repo.write("apps/operator.yaml", a.operator())
	a.repo.write("apps/servers.yaml", a.at(documented(t, "Argo CD"))+"\n")
	image := "freehold.dev/operator:dev"
	a.Kubelet.Image(image, kit.NeverReady())
	a.admit(team)
	revision := a.repo.push("operator and servers")
	apps, own, under := applicationOf("mcp"), applicationOf("freehold"), a.app
	a.Cleanup(func() {
		a.Kubelet.Image(image, kit.Runs())
		for _, app := range []*unstructured.Unstructured{apps, own} { // and leaves the operator
			a.Delete(app)
			a.AwaitGone(app)
		}
		a.delete(under, "background", team)
	})
	a.Force("kubectl", a.at(a.repo.read("config/gitops/argocd-apps.yaml")))
	a.app = apps
	a.waits(revision, "waiting for healthy state of argoproj.io/Application/freehold")
	a.withheld(under, own)
	a.Kubelet.Image(image, kit.Runs())
	a.healthy(revision)
	a.app = under
	a.healthy(revision)
}

// withheld holds, from when an Application is Progressing, that another does not exist. Without a health check of Applications Argo CD
// pauses two seconds between waves, so it looks for longer.
func (a *argo) withheld(later, earlier *unstructured.Unstructured) {
	a.Helper()
	a.Await(earlier, "Argo CD says Progressing of "+earlier.GetName(), func() error {
		if is := saidOf(earlier); is.health != "Progressing" {
			return fmt.Errorf("it says %+v", is)
		}
		return nil
	})
	pause := time.NewTicker(500 * time.Millisecond)
	defer pause.Stop()
	for range 20 {
		if a.Exists(later) {
			a.Fatalf("there is %s while %s is not Healthy: %+v", later.GetName(), earlier.GetName(), saidOf(earlier))
		}
		<-pause.C
	}
	a.Read(earlier)
	if is := saidOf(earlier); is.health != "Progressing" {
		a.Errorf("Argo CD says %+v of %s, which is to be in progress", is, earlier.GetName())
	}
}

// holds says whether the Application has an object of a kind.
func (a *argo) holds(kind string) bool {
	a.Helper()
	a.Read(a.app)
	all, _, _ := unstructured.NestedSlice(a.app.Object, "status", "resources")
	for _, one := range all {
		if r, ok := one.(map[string]any); ok && r["kind"] == kind && r["status"] == "Synced" {
			return true
		}
	}
	return false
}

// withChart copies the chart into the repository, with an annotation of the story on everything, so that there is something to sync.
func (a *argo) withChart() {
	a.Helper()
	a.Must(filepath.WalkDir(filepath.Join(root, "config", "chart"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			path, err = filepath.Rel(root, path)
			a.repo.write(path, string(text))
		}
		return err
	}), "copying the chart")
	a.repo.edit("config/chart/values.yaml", "commonAnnotations: {}", fmt.Sprintf("commonAnnotations: {story: %q}", filepath.Base(a.repo.url)))
}
