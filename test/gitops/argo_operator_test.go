package gitops

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/test/kit"
)

// TestArgoHoldsTheOperator applies argocd-operator.yaml with the chart of this repository, over an installation of it:
// nothing is ever out of sync, by server-side apply and by the client-side apply that Argo CD does without the option.
func TestArgoHoldsTheOperator(t *testing.T) {
	a := newArgo(t)
	a.withChart(a.repo)
	revision := a.repo.push("the chart")
	text := a.operator(a.repo, "main")
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

// operator is argocd-operator.yaml, with the chart of a repository at a revision.
func (a *argo) operator(charts *repository, revision string) string {
	a.Helper()
	text := a.repo.read("config/gitops/argocd-operator.yaml")
	from, rest, _ := strings.Cut(text, "    repoURL: ")
	_, to, found := strings.Cut(rest, "  destination: ")
	if !found {
		a.Fatalf("argocd-operator.yaml has no source:\n%s", text)
	}
	return from + "    repoURL: " + charts.url + "\n    path: config/chart\n    targetRevision: " + revision +
		"\n  destination: " + to
}

// TestArgoMakesTheOperatorFirst applies argocd-apps.yaml to a folder with argocd-operator.yaml and the Application of
// docs/gitops.md: while the operator's pods are not ready there is no Application of servers, and then all are Healthy.
// Argo CD calls the operator's Healthy also before its first sync, as some of its objects are on the plane already.
func TestArgoMakesTheOperatorFirst(t *testing.T) {
	a := newArgo(t)
	a.withChart(a.repo)
	a.repo.write("apps/operator.yaml", a.operator(a.repo, "main"))
	a.repo.write("apps/servers.yaml", a.at(documented(t, "Argo CD"))+"\n")
	image := "freehold.dev/operator:dev"
	a.Kubelet.Image(image, kit.NeverReady())
	a.admit(team)
	revision := a.repo.push("operator and servers")
	apps, own, under := applicationOf("mcp"), applicationOf("freehold"), a.app
	a.Cleanup(func() {
		a.Kubelet.Image(image, kit.Runs())
		a.Delete(apps)
		a.AwaitGone(apps)
		a.Delete(own) // and leaves the operator
		a.AwaitGone(own)
		a.delete(under, "background", team)
	})
	a.Force("kubectl", a.at(a.repo.read("config/gitops/argocd-apps.yaml")))
	a.app = apps
	a.waits(revision, "waiting for healthy state of argoproj.io/Application/freehold")
	a.withheld(own, "there are servers while the operator is not Healthy", func() bool { return a.Exists(under) })
	a.Kubelet.Image(image, kit.Runs())
	a.healthy(revision)
	a.app = under
	a.healthy(revision)
}

// TestArgoUpgradesTheOperatorFirst: a commit to the folder of argocd-apps.yaml raises the operator and the servers. The
// Application of servers stays at its revision while Argo CD has not read the new chart, which is when the operator's
// still says what it was before, and while the operator's new pods are not ready.
func TestArgoUpgradesTheOperatorFirst(t *testing.T) {
	a := newArgo(t)
	charts := newRepository(t)
	a.withChart(charts)
	a.admit(team)
	apps, own, under := applicationOf("mcp"), applicationOf("freehold"), a.app
	commit := func(chart, servers string) string {
		a.repo.write("apps/operator.yaml", a.operator(charts, chart))
		a.repo.write("apps/servers.yaml",
			strings.Replace(a.at(documented(t, "Argo CD")), "targetRevision: main", "targetRevision: "+servers, 1)+"\n")
		return a.repo.push("operator and servers")
	}
	old := a.repo.push("servers")
	first := commit(charts.push("a chart"), old)
	image := "freehold.dev/operator:next"
	a.Kubelet.Image(image, kit.NeverReady())
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
	a.healthy(first)
	a.repo.edit(base+"notes.yaml", "notes:2.0.1", "notes:2.1.0")
	raised := a.repo.push("servers of the new release")
	const after = "\n  digest: \"\"\n  pullPolicy: IfNotPresent\n\nrunner:"
	charts.edit("config/chart/values.yaml", "  tag: \"\""+after, "  tag: next"+after)
	chart := charts.push("the new release")
	release, second := charts.hold(), commit(chart, raised)
	a.look(apps)
	a.Await(own, "the Application of the operator states the new release", func() error {
		if is, _, _ := unstructured.NestedString(own.Object, "spec", "source", "targetRevision"); is != chart {
			return fmt.Errorf("it states %s", is)
		}
		return nil
	})
	moved := func() bool {
		a.Read(under)
		is, _, _ := unstructured.NestedString(under.Object, "spec", "source", "targetRevision")
		return is != old
	}
	a.stays("the servers were raised before Argo CD has read the operator's new chart", moved)
	if is := saidOf(own); is.health != "Healthy" || is.sync != "Synced" {
		t.Errorf("the operator's Application no longer says what it was before: %+v", is)
	}
	release()
	a.look(own)
	a.waits(second, "waiting for healthy state of argoproj.io/Application/freehold")
	a.withheld(own, "the servers were raised before the operator", moved)
	a.Kubelet.Image(image, kit.Runs())
	a.healthy(second)
	a.app = under
	a.healthy(raised)
	a.app = own
	a.healthy(chart)
}

// withheld holds that something has not come about while an Application is Progressing. Without a health check of
// Applications Argo CD pauses two seconds between waves, so it looks for longer.
func (a *argo) withheld(earlier *unstructured.Unstructured, what string, is func() bool) {
	a.Helper()
	a.Await(earlier, "Argo CD says Progressing of "+earlier.GetName(), func() error {
		if is := saidOf(earlier); is.health != "Progressing" {
			return fmt.Errorf("it says %+v", is)
		}
		return nil
	})
	a.stays(what, is)
	a.Read(earlier)
	if is := saidOf(earlier); is.health != "Progressing" {
		a.Errorf("Argo CD says %+v of %s, which is to be in progress", is, earlier.GetName())
	}
}

// stays holds for ten seconds that something has not come about.
func (a *argo) stays(what string, is func() bool) {
	a.Helper()
	pause := time.NewTicker(500 * time.Millisecond)
	defer pause.Stop()
	for range 20 {
		if is() {
			a.Fatal(what)
		}
		<-pause.C
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

// withChart copies the chart into a repository, with an annotation of the story on everything, so that there is
// something to sync.
func (a *argo) withChart(r *repository) {
	a.Helper()
	a.Must(filepath.WalkDir(filepath.Join(root, "config", "chart"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			path, err = filepath.Rel(root, path)
			r.write(path, string(text))
		}
		return err
	}), "copying the chart")
	r.edit("config/chart/values.yaml", "commonAnnotations: {}",
		fmt.Sprintf("commonAnnotations: {story: %q}", filepath.Base(r.url)))
}
