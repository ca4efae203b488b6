package gitops

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/freehold-dev/freehold/test/kit"
)

const (
	argoSystem = "argocd"
	// servers is the folder that the Application of docs/gitops.md reads, team its namespace.
	servers = "servers/"
	team    = "team"
	// refresh is what `argocd app get --refresh` annotates an Application with; Argo CD takes it away when it has looked
	// (https://argo-cd.readthedocs.io/en/stable/user-guide/annotations-and-labels/).
	refresh = "argocd.argoproj.io/refresh"
)

var (
	kindApplication = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}
	kindCRD         = schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition",
	}
)

// argoServer is the address of Argo CD's API server, which asks nobody who they are.
var argoServer string

// startArgo starts Argo CD's application controller, repo server, ApplicationSet controller and API server with the
// administrator's rights, as Argo CD has them by default, and the cache that they share. The first story of Argo CD
// does.
var startArgo = sync.OnceValue(func() error {
	var address [8]string
	for i := range address {
		var err error
		if address[i], err = free(); err != nil {
			return err
		}
	}
	redis, repo, metrics := address[0], address[1], address[2]
	_, repoPort, _ := net.SplitHostPort(repo)
	_, repoMetrics, _ := net.SplitHostPort(address[3])
	_, port, _ := net.SplitHostPort(metrics)
	argoServer = address[6]
	_, serverPort, _ := net.SplitHostPort(argoServer)
	_, serverMetrics, _ := net.SplitHostPort(address[7])
	data := filepath.Join(work, "argocd")
	for _, dir := range []string{"tls", "ssh"} {
		if err := os.MkdirAll(filepath.Join(data, dir), 0o700); err != nil {
			return err
		}
	}
	environment := []string{
		"KUBECONFIG=" + kubeconfig, "ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false",
		"ARGOCD_ASK_PASS_SOCK=" + filepath.Join(data, "ask.sock"),
		"ARGOCD_TLS_DATA_PATH=" + filepath.Join(data, "tls"), "ARGOCD_SSH_DATA_PATH=" + filepath.Join(data, "ssh"),
	}
	program := func(name string, args ...string) error {
		command := exec.Command(filepath.Join(bin, "argocd"), args...)
		return start(command, append(environment, "ARGOCD_BINARY_NAME="+name)...)
	}
	if err := start(exec.Command(filepath.Join(bin, "redis"), redis)); err != nil {
		return err
	}
	if err := program("argocd-repo-server", "--redis="+redis, "--disable-tls", "--client-ca-path=", "--address=127.0.0.1",
		"--port="+repoPort,
		"--metrics-address=127.0.0.1", "--metrics-port="+repoMetrics); err != nil {
		return err
	}
	if err := program("argocd-application-controller", "--namespace="+argoSystem, "--redis="+redis, "--repo-server="+repo,
		"--repo-server-plaintext",
		"--metrics-port="+port, "--persist-resource-health"); err != nil {
		return err
	}
	if err := program("argocd-server", "--namespace="+argoSystem, "--redis="+redis, "--repo-server="+repo,
		"--repo-server-plaintext", "--insecure",
		"--disable-auth", "--address=127.0.0.1", "--port="+serverPort, "--metrics-address=127.0.0.1",
		"--metrics-port="+serverMetrics); err != nil {
		return err
	}
	return program("argocd-applicationset-controller", "--namespace="+argoSystem, "--argocd-repo-server="+repo,
		"--repo-server-plaintext",
		"--metrics-addr="+address[4], "--probe-addr="+address[5], "--webhook-addr=127.0.0.1:0", "--enable-progressive-syncs")
})

// argo is a story with Argo CD: a repository, and an Application of it.
type argo struct {
	*kit.Env
	repo *repository
	app  *unstructured.Unstructured
}

// newArgo installs Argo CD with the health checks of config/gitops, and makes a repository with config/gitops whose
// folder servers has the team's servers in the namespace team.
func newArgo(t *testing.T) *argo {
	t.Helper()
	a := &argo{Env: newEnv(t, argoSystem), repo: newRepository(t), app: applicationOf("mcp-servers")}
	a.Force("admin", "{apiVersion: v1, kind: Namespace, metadata: {name: "+argoSystem+"}}")
	a.install()
	a.RunProxies(team, "team-dev", "team-staging", "team-prod")
	a.repo.write(servers+"kustomization.yaml", "resources: [../config/gitops/team/base]\nnamespace: team\n"+
		"configMapGenerator:\n- name: settings\n  literals: [ENVIRONMENT=team]\n")
	return a
}

// install applies what Argo CD ships, and argocd-cm.yaml over it with the request of the kubectl patch that
// docs/gitops.md names.
func (a *argo) install() {
	a.Helper()
	install(a.Env, "argo")
	checks := a.Intent(a.repo.read("config/gitops/argocd-cm.yaml"))
	patch, err := checks.MarshalJSON()
	a.Must(err, "reading argocd-cm.yaml")
	a.Patch(checks, "kubectl-patch", string(patch))
	if checks.GetLabels()["app.kubernetes.io/part-of"] != "argocd" { // Argo CD reads no other
		a.Fatalf("the ConfigMap argocd-cm has lost what Argo CD ships in it: %v", checks.GetLabels())
	}
	a.Force("kubectl", "{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: default},"+
		"spec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}], clusterResourceWhitelist: [{group: '*', "+
		"kind: '*'}], orphanedResources: {warn: true}}}")
	a.Must(startArgo(), "starting Argo CD")
}

// documented is the first manifest of a section of docs/gitops.md.
func documented(t testing.TB, section string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## "+section+"\n")
	_, text, _ = strings.Cut(text, "\n```yaml\n")
	text, _, found := strings.Cut(text, "\n```\n")
	if !found {
		t.Fatalf("docs/gitops.md has no manifest under %q", section)
	}
	return text
}

// apply applies the Application of docs/gitops.md, with the address of the story's repository and the changes that a
// story makes. The story ends with its deletion.
func (a *argo) apply(changes ...string) {
	a.Helper()
	text := a.at(documented(a, "Argo CD"))
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(text, changes[i]) != 1 {
			a.Fatalf("%q is not once in the Application of docs/gitops.md:\n%s", changes[i], text)
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	a.admit(team)
	a.Force("kubectl", text)
	a.Cleanup(func() { a.delete(a.app, "background", team) })
}

// at has the story's address of the repository in a recipe.
func (a *argo) at(text string) string {
	return strings.ReplaceAll(text, "https://git.example.com/team/servers.git", a.repo.url)
}

// admit makes a namespace with the Secret that search.yaml names, as External Secrets does.
func (a *argo) admit(namespace string) {
	a.Helper()
	if old := (&corev1.Namespace{ObjectMeta: named(namespace)}); a.Exists(old) && old.DeletionTimestamp != nil {
		a.AwaitGone(old) // of a story that failed
	}
	a.Force("admin", "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	a.On(namespace).Force("external-secrets",
		"{apiVersion: v1, kind: Secret, metadata: {name: search}, stringData: {token: hidden-token}}")
}

// delete deletes an Application as `argocd app delete --propagation-policy` does, and waits until all that it applied
// is gone (https://argo-cd.readthedocs.io/en/stable/user-guide/app_deletion/).
func (a *argo) delete(app *unstructured.Unstructured, propagation string, namespaces ...string) {
	a.Helper()
	finalizer := "resources-finalizer.argocd.argoproj.io"
	if propagation == "background" {
		finalizer += "/background"
	}
	if a.Exists(app) {
		if _, syncs := app.Object["operation"]; syncs {
			// As `argocd app terminate-op` does: Argo CD deletes nothing while a sync runs or is to be tried again.
			a.Patch(app, "argocd", `{"status":{"operationState":{"phase":"Terminating"}}}`)
		}
		a.Patch(app, "argocd", `{"metadata":{"finalizers":["`+finalizer+`"]}}`)
		a.Delete(app)
		a.AwaitGone(app)
	}
	for _, namespace := range namespaces {
		a.AwaitGone(&corev1.Namespace{ObjectMeta: named(namespace)})
	}
}

// push commits, and has Argo CD look at the commit.
func (a *argo) push(message string) string {
	a.Helper()
	revision := a.repo.push(message)
	a.look(a.app)
	return revision
}

// look has Argo CD compare Git with the cluster, and waits until it has. It asks again where Argo CD has not: it loses
// a request that comes while it writes the status of a new Application.
func (a *argo) look(app *unstructured.Unstructured) {
	a.Helper()
	for end := time.Now().Add(a.Patience); time.Now().Before(end); {
		a.Patch(app, "argocd", `{"metadata":{"annotations":{"`+refresh+`":"normal","example.com/asked":"`+
			time.Now().Format(time.RFC3339Nano)+`"}}}`)
		if a.looked(app) {
			return
		}
	}
	a.Fatalf("Argo CD has not looked at %s within %s:\n%s", app.GetName(), a.Patience, a.Describe(app))
}

// looked waits for it, a quarter of a minute.
func (a *argo) looked(app *unstructured.Unstructured) bool {
	a.Helper()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for range 150 {
		a.Read(app)
		if _, waits := app.GetAnnotations()[refresh]; !waits {
			return true
		}
		<-pause.C
	}
	return false
}

// said is what `argocd app get` shows of an Application.
type said struct {
	// revision is what it compared with, synced what it synced last.
	revision, synced string
	sync, health     string
	// phase is how the last sync ended.
	phase string
}

func saidOf(app *unstructured.Unstructured) said {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(app.Object, append([]string{"status"}, path...)...)
		return value
	}
	return said{
		revision: text("sync", "revision"), synced: text("operationState", "syncResult", "revision"),
		sync: text("sync", "status"), health: text("health", "status"), phase: text("operationState", "phase"),
	}
}

// says waits until Argo CD says of a commit that it is synced, how its objects are, and how the sync ended.
func (a *argo) says(revision, sync, health, phase string) {
	a.Helper()
	want := said{revision: revision, synced: revision, sync: sync, health: health, phase: phase}
	a.Await(a.app, fmt.Sprintf("Argo CD says %s, %s, %s", sync, health, phase), func() error {
		if is := saidOf(a.app); is != want {
			message, _, _ := unstructured.NestedString(a.app.Object, "status", "operationState", "message")
			return fmt.Errorf("it says %+v: %s", is, message)
		}
		return nil
	})
}

// healthy waits until a commit is synced and healthy.
func (a *argo) healthy(revision string) {
	a.Helper()
	a.says(revision, "Synced", "Healthy", "Succeeded")
}

// healthOf is what Argo CD says of one object of the Application.
func (a *argo) healthOf(kind, name string) string {
	a.Helper()
	a.Read(a.app)
	all, _, _ := unstructured.NestedSlice(a.app.Object, "status", "resources")
	for _, one := range all {
		if r, ok := one.(map[string]any); ok && r["kind"] == kind && r["name"] == name {
			health, _, _ := unstructured.NestedString(r, "health", "status")
			return health
		}
	}
	a.Fatalf("the Application has no %s %s: %v", kind, name, all)
	return ""
}

func applicationOf(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kindApplication)
	object.SetName(name)
	object.SetNamespace(argoSystem)
	return object
}
