package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// helm4 is the Helm that the project is installed with. HELM names the one under test.
const helm4 = "bin/tools/helm"

// A release is installed, upgraded, rolled back, uninstalled and installed again. The server
// stays what it was, and what others have written on the chart's objects stays too.
func TestHelmLosesNothing(t *testing.T) {
	binary := os.Getenv("HELM")
	if binary == "" {
		t.Skip("make test-helm runs it with Helm 4 and with Helm 3")
	}
	s := kit.NewEnv(t, plane)
	s.Cleanup(func() { uninstalled(s) })
	h := &release{Env: s, helm: binary}
	h.does("install", "--create-namespace")
	s.RunProxies()
	h.operates()
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: s.Namespace}}
	s.Apply("git", kit.Server("echo", "registry.example.com/echo:1", ""))
	h.ready(server, 1)
	uid := server.UID
	h.othersWrite()

	h.does("upgrade", "--set=runner.image.tag=next,log.level=debug")
	h.operates()
	h.ready(server, 2)
	h.othersAreKept("an upgrade")

	h.run("rollback", "freehold", "1", "--wait", "--timeout=3m")
	h.operates()
	h.ready(server, 3)
	h.othersAreKept("a rollback")

	h.ends()
	h.run("uninstall", "freehold", "--wait", "--timeout=3m")
	h.ready(server, 3)
	h.does("install")
	h.operates()
	s.Apply("git", kit.Server("echo", "registry.example.com/echo:2", ""))
	h.ready(server, 4)

	h.setsBack()

	// Whoever comes from Helm 3 goes on with the same release.
	h.helm = helm4
	h.does("upgrade", "--set=log.level=warn")
	h.operates()
	h.ready(server, 4)
	if server.UID != uid {
		t.Errorf("the server is another one: %s, and was %s", server.UID, uid)
	}
	s.Delete(server)
	s.AwaitGone(server)
	h.ends()
	h.run("uninstall", "freehold", "--wait", "--timeout=3m")
}

// release is one of Helm's.
type release struct {
	*kit.Env
	helm string
	// end ends the operator's program, in good order.
	end func()
}

// run runs Helm.
func (h *release) run(args ...string) string {
	h.Helper()
	out, err := h.try(args...)
	if err != nil {
		h.Fatalf("%s %s: %v\n%s", h.helm, strings.Join(args, " "), err, out)
	}
	return out
}

// try runs Helm without the settings of the machine. It may fail.
func (h *release) try(args ...string) (string, error) {
	h.Helper()
	home := h.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	h.Must(kit.WriteKubeconfig(kubeconfig, plane.Config, h.Namespace), "preparing helm")
	command := exec.Command(h.helm, append(args, "--namespace="+kit.SystemNamespace)...) //nolint:gosec // HELM is the caller's
	command.Dir = root
	command.Env = []string{
		"KUBECONFIG=" + kubeconfig, "HOME=" + home, "HELM_CACHE_HOME=" + home,
		"HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home,
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

// does installs or upgrades the release.
func (h *release) does(verb string, args ...string) {
	h.Helper()
	h.run(append([]string{verb, "freehold", "config/chart", "--wait", "--timeout=3m"}, args...)...)
}

// operates runs the operator's program with the flags that the release's Deployment has
// now, in place of the one before.
func (h *release) operates() {
	h.Helper()
	h.ends()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "freehold-operator"}}
	h.On(kit.SystemNamespace).Read(deployment)
	pod := deployment.Spec.Template.Spec
	config, err := plane.ConfigOf(h.Ctx, deployment.Namespace, pod.ServiceAccountName)
	h.Must(err, "becoming the operator")
	h.end = h.Run(program, config, append(pod.Containers[0].Args, "--probe-address=0")...)
}

// ends ends the operator's program, if it runs.
func (h *release) ends() {
	h.Helper()
	if h.end != nil {
		h.end()
		h.end = nil
	}
}

// setsBack is an upgrade after somebody has changed what the chart states: Helm 3 sets it
// back, Helm 4 refuses to, unless it is told to.
func (h *release) setsBack() {
	h.Helper()
	kubectl(h.Env, "--namespace="+kit.SystemNamespace, "scale", "deployment/freehold-operator", "--replicas=3")
	if strings.HasPrefix(h.run("version", "--short"), "v3.") {
		h.does("upgrade")
	} else {
		out, err := h.try("upgrade", "freehold", "config/chart", "--wait", "--timeout=3m")
		if err == nil || !strings.Contains(out, "conflict") || !strings.Contains(out, ".spec.replicas") {
			h.Errorf("an upgrade over another's replicas is not refused: %v\n%s", err, out)
		}
		h.does("upgrade", "--force-conflicts")
	}
	if n := kubectl(h.Env, "--namespace="+kit.SystemNamespace, "get", "deployment/freehold-operator",
		"--output=jsonpath={.spec.replicas}"); n != "2" {
		h.Errorf("the operator has %s replicas, and the chart states 2", n)
	}
}

// ready waits until the server is, with a workload generation.
func (h *release) ready(server *v1alpha1.MCPServer, generation int64) {
	h.Helper()
	h.Await(server, "the server is ready", func() error {
		w := server.Status.Workload
		if !meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionReady) || w == nil ||
			w.Generation != generation {
			return fmt.Errorf("want generation %d of the workload: %+v", generation, server.Status)
		}
		return nil
	})
}

// theirs is what others write on objects of the chart.
var theirs = []string{"deployment/freehold-operator", "crd/mcpservers.freehold.dev", "clusterrole/freehold-view"}

func (h *release) othersWrite() {
	h.Helper()
	for _, object := range theirs {
		kubectl(h.Env, "--namespace="+kit.SystemNamespace, "annotate", "--field-manager=somebody", object,
			"example.com/note=theirs")
	}
}

func (h *release) othersAreKept(after string) {
	h.Helper()
	for _, object := range theirs {
		note := kubectl(h.Env, "--namespace="+kit.SystemNamespace, "get", object,
			`--output=jsonpath={.metadata.annotations.example\.com/note}`)
		if note != "theirs" {
			h.Errorf("%s of %s has lost what somebody has written: %q", after, object, note)
		}
	}
}
