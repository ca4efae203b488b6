package gitops

import (
	"fmt"
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
	fluxSystem = "flux-system"
	base       = "config/gitops/team/base/"
	overlays   = "config/gitops/team/overlays/"
	// handled is what `flux reconcile` annotates an object with
	// (https://fluxcd.io/flux/components/kustomize/kustomizations/#triggering-a-reconcile).
	handled = "reconcile.fluxcd.io/requestedAt"
)

var (
	kindKustomization = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
	kindGitRepository = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"}
)

// startFlux starts source-controller and kustomize-controller with the administrator's rights, as Flux has them by
// default. The first story of Flux does, once the API server serves their kinds: source-controller ends where it does
// not.
var startFlux = sync.OnceValue(func() error {
	storage, err := free()
	if err != nil {
		return err
	}
	common := []string{"--watch-all-namespaces", "--metrics-addr=0", "--health-addr=127.0.0.1:0", "--log-level=info"}
	environment := []string{"KUBECONFIG=" + kubeconfig, "RUNTIME_NAMESPACE=" + fluxSystem}
	source := exec.Command(filepath.Join(bin, "source-controller"), append(common,
		"--storage-path="+filepath.Join(work, "artifacts"), "--storage-addr="+storage, "--storage-adv-addr="+storage)...)
	if err := os.MkdirAll(filepath.Join(work, "artifacts"), 0o700); err != nil {
		return err
	}
	if err := start(source, environment...); err != nil {
		return err
	}
	return start(exec.Command(filepath.Join(bin, "kustomize-controller"), append(common, "--requeue-dependency=5s")...),
		environment...)
})

// flux is a story with Flux: a repository, and what of config/gitops/flux.yaml was applied.
type flux struct {
	*kit.Env
	repo *repository
}

// newFlux makes a repository with config/gitops and a Secret for the servers, encrypted as config/gitops/sops.yaml
// says. Whatever Flux applies for the story is pruned when it ends.
func newFlux(t *testing.T) *flux {
	t.Helper()
	f := &flux{Env: newEnv(t, fluxSystem), repo: newRepository(t)}
	install(f.Env, "flux")
	install(f.Env, "source")
	f.Must(startFlux(), "starting Flux")
	f.Force("admin", "{apiVersion: v1, kind: Namespace, metadata: {name: "+fluxSystem+"}}")
	f.RunProxies("team-dev", "team-staging", "team-prod")
	f.encrypt()
	return f
}

// encrypt puts the Secret that search.yaml names into the base, encrypted for a new key that only Flux has.
func (f *flux) encrypt() {
	f.Helper()
	key, err := exec.Command(filepath.Join(bin, "age-keygen")).Output()
	f.Must(err, "making a key for SOPS")
	_, public, _ := strings.Cut(string(key), "# public key: ")
	public, _, _ = strings.Cut(public, "\n")
	rules := f.repo.read("config/gitops/sops.yaml")
	from, placeholder, _ := strings.Cut(rules, "age: ")
	f.repo.write(".sops.yaml", from+"age: "+public+"\n")
	if !strings.HasPrefix(placeholder, "age1") {
		f.Fatalf("config/gitops/sops.yaml names no key of age:\n%s", rules)
	}
	f.repo.write(base+"search-secret.yaml",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: search}\nstringData: {token: hidden-token}\n")
	sops := exec.Command(filepath.Join(bin, "sops"), "encrypt", "--in-place", base+"search-secret.yaml")
	sops.Dir = f.repo.dir
	if out, err := sops.CombinedOutput(); err != nil {
		f.Fatalf("sops: %v\n%s", err, out)
	}
	if text := f.repo.read(base + "search-secret.yaml"); strings.Contains(text, "hidden-token") ||
		!strings.Contains(text, "name: search") {
		f.Fatalf("sops.yaml does not encrypt the Secret's values alone:\n%s", text)
	}
	f.repo.edit(base+"kustomization.yaml", "- search.yaml\n", "- search.yaml\n- search-secret.yaml\n")
	f.Force("admin", fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: sops-age}\nstringData: {keys.agekey: %q}",
		key))
}

// apply applies the GitRepository of flux.yaml and the Kustomizations of these environments.
func (f *flux) apply(environments ...string) {
	f.Helper()
	f.git("flux.yaml", func(object *unstructured.Unstructured) bool {
		environment, found := strings.CutPrefix(object.GetName(), "mcp-")
		return !found || strings.Contains(" "+strings.Join(environments, " ")+" ", " "+environment+" ")
	})
}

// git applies documents of a recipe as kubectl does, with the address of the story's repository.
func (f *flux) git(recipe string, wanted func(*unstructured.Unstructured) bool) {
	f.Helper()
	text := strings.ReplaceAll(f.repo.read("config/gitops/"+recipe), "https://git.example.com/team/servers.git",
		f.repo.url)
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := f.Intent(document)
		if !wanted(object) {
			continue
		}
		f.Force("kubectl", document)
		if object.GetKind() == "Kustomization" {
			f.Cleanup(func() { f.prune(object) })
		}
	}
}

// prune deletes a Kustomization, waits until Flux has deleted what it applied, and until that is gone.
func (f *flux) prune(object *unstructured.Unstructured) {
	f.Helper()
	f.Delete(object)
	f.AwaitGone(object)
	environment := strings.TrimPrefix(object.GetName(), "mcp-")
	f.AwaitGone(&corev1.Namespace{ObjectMeta: named("team-" + environment)})
}

// reconcile asks Flux to look at Git now, as `flux reconcile source git servers` does, and not after its interval.
func (f *flux) reconcile(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	f.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	object.SetName(name)
	object.SetNamespace(fluxSystem)
	now := time.Now().Format(time.RFC3339Nano)
	f.Patch(object, "flux", `{"metadata":{"annotations":{"`+handled+`":"`+now+`"}}}`)
	f.Await(object, "Flux has handled "+name, func() error {
		if at, _, _ := unstructured.NestedString(object.Object, "status", "lastHandledReconcileAt"); at != now {
			return fmt.Errorf("it was handled at %q, not %q", at, now)
		}
		return nil
	})
	return object
}

// push commits, and has Flux read the commit.
func (f *flux) push(message string) string {
	f.Helper()
	revision := "main@sha1:" + f.repo.push(message)
	f.reconcile(kindGitRepository, "servers")
	return revision
}

// says waits until the Kustomization has tried a revision and says so of it. Ready in Flux's words is what
// `flux get kustomizations` shows.
func (f *flux) says(environment, revision, status, reason string) string {
	f.Helper()
	return f.saysOf(kustomization(environment), revision, status, reason)
}

func (f *flux) saysOf(object *unstructured.Unstructured, revision, status, reason string) string {
	f.Helper()
	message := ""
	f.Await(object, fmt.Sprintf("Flux says Ready=%s, %s of %s", status, reason, object.GetName()), func() error {
		tried, _, _ := unstructured.NestedString(object.Object, "status", "lastAttemptedRevision")
		is, why, text := condition(object, "Ready")
		message = text
		if tried != revision || is != status || why != reason {
			return fmt.Errorf("it tried %s, not %s, and says %s, %s: %s", tried, revision, is, why, text)
		}
		return nil
	})
	return message
}

// ready waits until the Kustomization is Ready with a revision.
func (f *flux) ready(environment, revision string) {
	f.Helper()
	f.says(environment, revision, "True", "ReconciliationSucceeded")
}

func kustomization(environment string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kindKustomization)
	object.SetName("mcp-" + environment)
	object.SetNamespace(fluxSystem)
	return object
}

// condition reads a condition of any object.
func condition(object *unstructured.Unstructured, kind string) (status, reason, message string) {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range all {
		if c, ok := one.(map[string]any); ok && c["type"] == kind {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, reason, message
}
