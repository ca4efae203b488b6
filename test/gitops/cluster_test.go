package gitops

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// version is the tag of the images that the cluster holds. The everything-server has a second one, with "-again".
func version() string {
	if v := os.Getenv("VERSION"); v != "" {
		return v
	}
	return "dev"
}

// realServer is a server of the team whose image is a real MCP server: two proxies and two backends, so that a rollout
// fails no call.
func realServer(name string) string {
	return fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: %s}\nspec:\n  image: "+
		"freehold.dev/everything-server:%s\n"+
		"  args: [-http, \":8080\", -stateless=true]\n  replicas: 2\n  proxy: {replicas: 2}\n", name, version())
}

// clusterRepository has the operator, as its chart renders it, and two servers.
func clusterRepository(t *testing.T) *repository {
	t.Helper()
	r := newRepository(t)
	helm := exec.Command(filepath.Join(root, "bin", "tools", "helm"), "template", "freehold",
		filepath.Join(root, "config", "chart"), "--no-hooks",
		"--namespace", kit.SystemNamespace, "--set", "image.tag="+version(), "--set", "runner.image.tag="+version())
	var errors bytes.Buffer
	helm.Stderr = &errors
	rendered, err := helm.Output()
	if err != nil {
		t.Fatalf("rendering the chart: %v\n%s", err, errors.String())
	}
	r.write("operator/freehold.yaml", string(rendered))
	r.write("operator/namespace.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: "+kit.SystemNamespace+"}}\n")
	r.write(servers+"namespace.yaml",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {pod-security.kubernetes.io/enforce: restricted}}\n")
	for _, name := range []string{"search", "notes"} {
		r.write(servers+name+".yaml", realServer(name))
	}
	return r
}

// operatorKustomization is what docs/gitops.md says of servers, of the operator: without it a Kustomization of servers
// cannot be judged.
const operatorKustomization = `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: freehold, namespace: flux-system}
spec:
  interval: 10m
  path: ./operator
  prune: true
  wait: true
  timeout: 4m
  sourceRef: {kind: GitRepository, name: servers}
`

// TestClusterFluxAndArgo: Flux installs the operator from its manifests and then a team's servers, on a cluster that
// had neither; a commit changes an image while clients call; servers go in the background, as Flux deletes, and in the
// foreground, as Argo CD does; at last the operator goes, and nothing is left.
func TestClusterFluxAndArgo(t *testing.T) {
	f := &flux{Env: newEnv(t, fluxSystem), repo: clusterRepository(t)}
	f.Force("admin", "{apiVersion: v1, kind: Namespace, metadata: {name: "+fluxSystem+"}}")
	f.Must(startFlux(), "starting Flux")
	revision := "main@sha1:" + f.repo.push("operator and servers")
	f.git("flux.yaml", func(object *unstructured.Unstructured) bool { return object.GetKind() == "GitRepository" })
	f.Force("kubectl", operatorKustomization)
	operator, team := kustomization("servers"), kustomization("servers")
	operator.SetName("freehold")
	f.Force("kubectl", documented(t, "Flux")+"\n  dependsOn: [{name: freehold}]\n")
	f.saysOf(operator, revision, "True", "ReconciliationSucceeded")
	f.saysOf(team, revision, "True", "ReconciliationSucceeded")
	t.Logf("%s: the operator and two servers are Ready", time.Now().Format(time.TimeOnly))

	s := envOf{f.On("team")}
	search := &v1alpha1.MCPServer{ObjectMeta: named("search")}
	s.Read(search)
	if c := ready(search); c == nil || c.Status != "True" || c.ObservedGeneration != search.Generation {
		t.Fatalf("Flux says Ready, and the server says %+v", c)
	}
	calls := callAgain(t, search.Status.URL)
	f.repo.edit(servers+"search.yaml", "everything-server:"+version(), "everything-server:"+version()+"-again")
	f.saysOf(team, f.push("another image"), "True", "ReconciliationSucceeded")
	answers, failures := calls.end()
	t.Logf("%s: %d answers during a rollout, failures: %q", time.Now().Format(time.TimeOnly), answers, failures)
	if len(failures) > 0 || answers == 0 {
		t.Errorf("of the calls during a rollout %d were answered, and these failed: %q", answers, failures)
	}
	s.runs("search", "everything-server:"+version()+"-again")

	// One server leaves Git. Flux deletes in the background.
	f.repo.git(f.repo.dir, "rm", "--quiet", servers+"notes.yaml")
	f.saysOf(team, f.push("without notes"), "True", "ReconciliationSucceeded")
	s.AwaitGone(&v1alpha1.MCPServer{ObjectMeta: named("notes")})
	s.childless("notes")
	t.Logf("%s: a server that left Git is gone", time.Now().Format(time.TimeOnly))

	// Everything at once. Argo CD deletes in the foreground.
	f.Delete(team)
	f.AwaitGone(team)
	s.AwaitGone(&corev1.Namespace{ObjectMeta: named("team")})
	a := &argo{Env: f.On(argoSystem), repo: f.repo, app: applicationOf("mcp-servers")}
	a.Force("admin", "{apiVersion: v1, kind: Namespace, metadata: {name: "+argoSystem+"}}")
	a.install()
	a.Force("kubectl", a.at(documented(t, "Argo CD")))
	a.healthy(strings.TrimPrefix(f.repo.git(f.repo.dir, "rev-parse", "HEAD"), "main@sha1:"))
	t.Logf("%s: Argo CD says Healthy", time.Now().Format(time.TimeOnly))
	a.delete(a.app, "foreground")
	s.childless("search")
	s.AwaitGone(&corev1.Namespace{ObjectMeta: named("team")})
	t.Logf("%s: all of Argo CD's servers are gone", time.Now().Format(time.TimeOnly))

	f.Delete(operator)
	f.AwaitGone(operator)
	f.AwaitGone(&corev1.Namespace{ObjectMeta: named(kit.SystemNamespace)})
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(kindCRD)
	crd.SetName("mcpservers.freehold.dev")
	f.AwaitGone(crd)
}

// runs fails unless each pod of a server's backend has an image.
func (s envOf) runs(server, image string) {
	s.Helper()
	var pods corev1.PodList
	s.Must(s.Client.List(s.Ctx, &pods, client.InNamespace(s.Namespace),
		client.MatchingLabels{workload.LabelServer: server}), "listing pods")
	found := 0
	for i := range pods.Items {
		for _, c := range pods.Items[i].Spec.Containers {
			if strings.HasSuffix(c.Image, image) {
				found++
			}
		}
	}
	if found != 2 {
		s.Errorf("%d pods of %s run %s, want 2", found, server, image)
	}
}

// caller calls a tool again and again, from four clients.
type caller struct {
	stop    context.CancelFunc
	done    sync.WaitGroup
	mu      sync.Mutex
	answers int
	failed  []string
}

func callAgain(t *testing.T, url string) *caller {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &caller{stop: stop}
	for range 4 {
		c.done.Go(func() {
			for ctx.Err() == nil {
				err := callOnce(url)
				c.mu.Lock()
				if err == nil {
					c.answers++
				} else {
					c.failed = append(c.failed, time.Now().Format(time.TimeOnly)+" "+err.Error())
				}
				c.mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return c
}

// callOnce calls a tool as a client of revision 2026-07-28, on a connection of its own. It is not cut when the story
// goes on.
func callOnce(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url,
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+
			`"name":"test_simple_text","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "test_simple_text",
	} {
		request.Header.Set(name, value)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"result"`))) {
		err = fmt.Errorf("HTTP %d: %s", response.StatusCode, body)
	}
	return err
}

func (c *caller) end() (answers int, failures []string) {
	c.stop()
	c.done.Wait()
	return c.answers, c.failed
}
