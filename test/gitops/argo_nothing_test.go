package gitops

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// elsewhere is a second cluster that Argo CD knows, which has nothing of Freehold's.
type elsewhere struct {
	*kit.Env
	// operator is the operator's program, from when the chart is there.
	operator *process
}

// elsewhere starts it.
func (a *argo) elsewhere() *elsewhere {
	a.Helper()
	second, err := kit.Start(a.Ctx, kit.WithoutDefinitions())
	a.Cleanup(func() {
		if err == nil { // killed, as Argo CD still watches: with watches, an API server takes a minute to end
			a.Must(errors.Join(second.APIServer.Kill(), second.Etcd.Kill()), "killing the second plane")
		}
		a.Must(second.Stop(), "stopping the second plane")
	})
	a.Must(err, "starting a second plane")
	a.Force("argocd", clusterSecret(second, "elsewhere", second.Config.Host))
	c := &elsewhere{Env: &kit.Env{TB: a.TB, Plane: second, Ctx: a.Ctx, Namespace: team, Patience: a.Patience}}
	a.Cleanup(func() {
		a.Delete(a.Intent("{apiVersion: v1, kind: Secret, metadata: {name: cluster-elsewhere}}"))
		if c.operator != nil {
			c.operator.end()
		}
	})
	return c
}

// here has the second cluster's address in a recipe.
func (c *elsewhere) here(text string) string {
	return strings.ReplaceAll(text, "https://kubernetes.default.svc", c.Config.Host)
}

// operate starts the operator's program when the chart's Deployment is there, as the kubelet does, with the rights that
// the chart gives, and runners in the servers' namespace.
func (c *elsewhere) operate() {
	c.Helper()
	c.On(kit.SystemNamespace).Await(deployment(), "the Deployment of the operator exists", func() error { return nil })
	operator, err := c.ConfigOf(c.Ctx, kit.SystemNamespace, contract.IdentityOperator)
	c.Must(err, "taking the operator's identity")
	config := filepath.Join(c.TempDir(), "operator.kubeconfig")
	c.Must(writeKubeconfig(config, operator), "writing a kubeconfig")
	c.Must(start(exec.Command(filepath.Join(work, "operator"), "--runner-image=freehold.dev/runner:test",
		"--probe-address=0",
		"--identity-namespace="+kit.SystemNamespace), "KUBECONFIG="+config), "starting the operator")
	c.operator = processes[len(processes)-1]
	c.RunProxies()
}

func deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named("freehold-operator")}
}

// admit waits for the servers' namespace, and puts the Secret into it that search.yaml names.
func (c *elsewhere) admit() {
	c.Helper()
	c.Await(&corev1.Namespace{ObjectMeta: named(team)}, "the namespace of the servers exists", func() error { return nil })
	c.Force("external-secrets", "{apiVersion: v1, kind: Secret, metadata: {name: search}, stringData: {token: "+
		"hidden-token}}")
}

// inOrder fails unless the operator was available before there were configurations, and these were ready before there
// were servers.
func (c *elsewhere) inOrder() {
	c.Helper()
	operator := deployment()
	c.On(kit.SystemNamespace).Read(operator)
	search, login := &v1alpha1.MCPServer{ObjectMeta: named("search")}, &v1alpha1.MCPOIDCConfig{ObjectMeta: named("team")}
	c.Read(search)
	c.Read(login)
	if is, message, err := kit.Kstatus(c.Unstructured(search)); err != nil || is != "Current" {
		c.Errorf("Argo CD says Healthy while search is %s: %s %v", is, message, err)
	}
	for _, condition := range operator.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable &&
			(condition.Status != corev1.ConditionTrue || login.CreationTimestamp.Before(&condition.LastTransitionTime)) {
			c.Errorf("the configuration was made at %s, and the operator says %+v", login.CreationTimestamp, condition)
		}
	}
	if len(login.Status.Conditions) == 0 ||
		search.CreationTimestamp.Before(&login.Status.Conditions[0].LastTransitionTime) {
		c.Errorf("the servers were made at %s, and the configuration says %+v", search.CreationTimestamp,
			login.Status.Conditions)
	}
}

// cleared waits until an Application's objects are gone, in order: while servers end, the operator runs. The CRDs stay:
// Argo CD deletes none with an Application.
func (c *elsewhere) cleared() {
	c.Helper()
	c.AwaitGone(&corev1.Namespace{ObjectMeta: named(team)})
	c.On(kit.SystemNamespace).AwaitGone(deployment())
	c.operator.end()
	for _, name := range []string{"mcpservers", "mcpoidcconfigs"} {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(kindCRD)
		crd.SetName(name + ".freehold.dev")
		if !c.Exists(crd) {
			c.Errorf("the CRD %s went with the Application", crd.GetName())
		}
	}
}

// TestArgoBringsAllInOneApplication applies argocd-single.yaml for a cluster without any of Freehold's kinds: CRDs,
// operator, configurations and servers come one after the other, and go in the opposite order.
func TestArgoBringsAllInOneApplication(t *testing.T) {
	a := newArgo(t)
	c := a.elsewhere()
	a.withChart(a.repo)
	a.repo.edit("config/chart/values.yaml", "commonAnnotations: {story", "commonAnnotations: {chart")
	a.repo.push("chart and servers")
	text := a.repo.read("config/gitops/argocd-single.yaml")
	chart := "repoURL: registry.example.com/charts\n    chart: freehold\n    targetRevision: 1.2.3\n"
	if strings.Count(text, chart) != 1 {
		t.Fatalf("argocd-single.yaml does not name the chart:\n%s", text)
	}
	text = strings.Replace(text, chart, "repoURL: "+a.repo.url+"\n    path: config/chart\n    targetRevision: main\n", 1)
	a.app = applicationOf("mcp")
	a.Cleanup(func() { a.delete(a.app, "background") })
	a.Force("kubectl", c.here(a.at(text)))
	c.operate()
	c.admit()
	a.says("", "Synced", "Healthy", "Succeeded") // an Application of several sources has several revisions
	c.inOrder()
	a.quiet(envOf{c.Env}, "of operator and servers together")
	a.delete(a.app, "foreground")
	c.cleared()
}

// TestArgoBringsAllInTwoApplications applies argocd-apps.yaml for such a cluster.
func TestArgoBringsAllInTwoApplications(t *testing.T) {
	a := newArgo(t)
	c := a.elsewhere()
	a.withChart(a.repo)
	a.repo.write("apps/operator.yaml", c.here(a.operator(a.repo, "main")))
	a.repo.write("apps/servers.yaml", c.here(a.at(documented(t, "Argo CD")))+"\n")
	revision := a.repo.push("operator and servers")
	apps, own, under := applicationOf("mcp"), applicationOf("freehold"), a.app
	a.Cleanup(func() {
		a.delete(apps, "background")
		a.delete(under, "background")
		a.delete(own, "background")
	})
	a.Force("kubectl", a.at(a.repo.read("config/gitops/argocd-apps.yaml")))
	c.operate()
	c.admit()
	for _, app := range []*unstructured.Unstructured{apps, own, under} {
		a.app = app
		a.healthy(revision)
	}
	c.inOrder()
	a.Delete(apps)
	a.AwaitGone(apps)
	a.delete(under, "foreground")
	a.delete(own, "foreground")
	c.cleared()
}

// TestArgoTriesServersAgain: the Application of docs/gitops.md on a cluster without the CRDs. Its sync fails, is tried
// again, and succeeds when the Application of the operator has brought them.
func TestArgoTriesServersAgain(t *testing.T) {
	a := newArgo(t)
	c := a.elsewhere()
	a.withChart(a.repo)
	revision := a.repo.push("chart and servers")
	own, under := applicationOf("freehold"), a.app
	a.Cleanup(func() {
		a.delete(under, "background")
		a.delete(own, "background")
	})
	a.Force("kubectl", c.here(a.at(documented(t, "Argo CD"))))
	a.waits(revision, "Retrying attempt #1")
	a.Force("kubectl", c.here(a.operator(a.repo, "main")))
	c.operate()
	c.admit()
	a.healthy(revision)
}
