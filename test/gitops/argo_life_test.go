package gitops

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// judged fails unless Argo CD's judgement of a server, and the condition that it stands for, are these. It returns the
// condition's message.
func (a *argo) judged(name, health, kind, reason string) string {
	a.Helper()
	if is := a.healthOf("MCPServer", name); is != health {
		a.Errorf("Argo CD says %s of %s, want %s", is, name, health)
	}
	server := &v1alpha1.MCPServer{ObjectMeta: named(name)}
	a.On(team).Read(server)
	for _, c := range server.Status.Conditions {
		if c.Type == kind && c.Status == "True" && c.Reason == reason {
			return c.Message
		}
	}
	a.Errorf("a server that is %s has no condition %s with the reason %s: %+v", health, kind, reason,
		server.Status.Conditions)
	return ""
}

// TestArgoSaysWhatAServerDoes takes a server through its life by commits, and holds what Argo CD says at each step. The
// Application is of the project of argocd-project.yaml.
func TestArgoSaysWhatAServerDoes(t *testing.T) {
	a := newArgo(t)
	project := a.Force("kubectl", a.at(a.repo.read("config/gitops/argocd-project.yaml")))
	a.Cleanup(func() { a.Delete(project) })
	first := a.repo.push("servers")
	a.apply("project: default", "project: "+project.GetName())
	a.healthy(first)
	a.judged("notes", "Healthy", v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	// Updating: in progress until the new pods are ready.
	image := "registry.example.com/team/notes:2.1.0"
	a.Kubelet.Image(image, kit.NeverReady())
	a.repo.edit(base+"notes.yaml", "notes:2.0.1", "notes:2.1.0")
	second := a.push("another image")
	a.says(second, "Synced", "Progressing", "Succeeded")
	a.judged("notes", "Progressing", v1alpha1.ConditionReconciling, v1alpha1.ReasonUpdating)
	if err := a.waited(10 * time.Second); err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("argocd app wait --health says of a server that is updated: %v", err)
	}
	a.Kubelet.Image(image, kit.Runs())
	a.Must(a.waited(a.Patience), "waiting with argocd app wait --health")
	a.healthy(second)
	a.judged("notes", "Healthy", v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	// Suspended, and scaled to zero by Git: reached states.
	a.repo.edit(base+"notes.yaml", "spec:\n", "spec:\n  suspend: true\n")
	a.healthy(a.push("suspend"))
	a.Must(a.waited(a.Patience), "waiting for a suspended server with argocd app wait --health")
	a.judged("notes", "Healthy", v1alpha1.ConditionSuspended, v1alpha1.ReasonSuspended)
	a.repo.edit(base+"notes.yaml", "  suspend: true\n", "  replicas: 0\n")
	a.healthy(a.push("scale to zero"))
	a.judged("notes", "Healthy", v1alpha1.ConditionSuspended, v1alpha1.ReasonScaledToZero)
	a.repo.edit(base+"notes.yaml", "  replicas: 0\n", "")
	a.healthy(a.push("start again"))
	a.judged("notes", "Healthy", v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	// Failing, and fixed by the next commit. A sync ends when the last wave is applied, whatever becomes of it.
	image = "registry.invalid/team/notes:2.0.2"
	a.Kubelet.Image(image, kit.ImagePullBackOff("not found"))
	a.repo.edit(base+"notes.yaml", "  image: registry.example.com/team/notes:2.1.0\n",
		"  image: "+image+"\n  progressDeadlineSeconds: 20\n")
	failing := a.push("an image that is not there")
	a.says(failing, "Synced", "Degraded", "Succeeded")
	if message := a.judged("notes", "Degraded", v1alpha1.ConditionStalled,
		v1alpha1.ReasonImagePull); !strings.Contains(message, image) {
		t.Errorf("the server that failed says %s", message)
	}
	if is := a.healthOf("MCPServer", "search"); is != "Healthy" {
		t.Errorf("a server beside one that failed is %s", is)
	}
	a.repo.edit(base+"notes.yaml", "  image: "+image+"\n  progressDeadlineSeconds: 20\n",
		"  image: registry.example.com/team/notes:2.0.1\n")
	a.healthy(a.push("the image that is"))
	a.judged("notes", "Healthy", v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	a.refuses(project.GetName())
}

// refuses commits an object that the project does not list, and waits until Argo CD says that it does not apply it.
func (a *argo) refuses(project string) {
	a.Helper()
	a.repo.write(servers+"stray.yaml",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: stray}\nspec:\n  selector: {matchLabels: {a: b}}\n"+
			"  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n")
	a.repo.edit(servers+"kustomization.yaml", "team/base]", "team/base, stray.yaml]")
	a.push("a Deployment")
	a.Await(a.app, "Argo CD refuses a Deployment", func() error {
		text, err := a.app.MarshalJSON()
		if err == nil && !strings.Contains(string(text), "resource apps:Deployment is not permitted in project "+project) {
			err = fmt.Errorf("it says %v", a.app.Object["status"])
		}
		return err
	})
}

// orphans waits until Argo CD warns of objects that have neither an owner nor a place in Git.
func (a *argo) orphans(warning string) {
	a.Helper()
	a.Await(a.app, "Argo CD says: "+warning, func() error {
		conditions, _, _ := unstructured.NestedSlice(a.app.Object, "status", "conditions")
		for _, one := range conditions {
			if c, ok := one.(map[string]any); ok && c["type"] == "OrphanedResourceWarning" && c["message"] == warning {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", conditions)
	})
}

// TestArgoSyncsInWaves: what stands in a later wave is made when all of the earlier ones is Healthy: the namespace,
// then the shared configurations, then one server, then the other; a server that fails ends the sync, and the next
// commit goes on.
func TestArgoSyncsInWaves(t *testing.T) {
	a := newArgo(t)
	s := a.On(team)
	image := "registry.example.com/team/search:1.4.0"
	a.Kubelet.Image(image, kit.NeverReady())
	a.repo.edit(base+"notes.yaml", "{name: notes}", "{name: notes, annotations: {argocd.argoproj.io/sync-wave: \"1\"}}")
	a.repo.edit(base+"search.yaml", "spec:\n", "spec:\n  progressDeadlineSeconds: 20\n")
	a.Cleanup(func() { a.Kubelet.Image(image, kit.Runs()) })
	first := a.repo.push("servers")
	a.apply()

	search, notes := &v1alpha1.MCPServer{ObjectMeta: named("search")}, &v1alpha1.MCPServer{ObjectMeta: named("notes")}
	s.AwaitCondition(search, v1alpha1.ConditionReconciling, "True")
	for _, config := range []string{"MCPOIDCConfig", "MCPAuthzConfig"} {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
		object.SetKind(config)
		object.SetName("team")
		s.Read(object)
		if status, _, message := condition(object, v1alpha1.ConditionReady); status != "True" ||
			object.GetCreationTimestamp().Time.After(search.CreationTimestamp.Time) {
			t.Errorf("the servers were made at %s before %s was ready: %s", search.CreationTimestamp, config, message)
		}
	}
	a.waits(first, "waiting for healthy state of")
	if s.Exists(notes) {
		t.Error("the server of the second wave was made before that of the first was Healthy")
	}
	// The operator calls it stalled, Argo CD Degraded, and the sync fails and is to be tried again. The second wave was
	// never applied.
	a.waits(first, "completed unsuccessfully. Retrying attempt #1")
	if s.Exists(notes) {
		t.Error("the server of the second wave was made after that of the first had failed")
	}

	// The next attempt takes the commit with the correction, both waves of it.
	a.Kubelet.Image(image, kit.Runs())
	a.repo.edit(base+"search.yaml", "  progressDeadlineSeconds: 20\n", "")
	a.healthy(a.push("enough time"))
	s.Read(search)
	s.Read(notes)
	if at := ready(search).LastTransitionTime; notes.CreationTimestamp.Before(&at) {
		t.Errorf("the server of the second wave was made at %s, and that of the first was Ready at %s",
			notes.CreationTimestamp, at)
	}
	a.orphans("Application has 1 orphaned resources") // the Secret that admit made, and nothing that Freehold made
}

// waits waits until the sync of a commit runs and says what it waits for.
func (a *argo) waits(revision, what string) {
	a.Helper()
	a.Await(a.app, "the sync of a commit says: "+what, func() error {
		message, _, _ := unstructured.NestedString(a.app.Object, "status", "operationState", "message")
		if is := saidOf(a.app); is.synced != revision || is.phase != "Running" || !strings.Contains(message, what) {
			return fmt.Errorf("Argo CD says %+v: %s", is, message)
		}
		return nil
	})
}

// waited is how `argocd app wait --health` ends.
func (a *argo) waited(timeout time.Duration) error {
	a.Helper()
	for end := time.Now().Add(a.Patience); ; time.Sleep(100 * time.Millisecond) {
		connection, err := net.Dial("tcp", argoServer)
		if err == nil {
			_ = connection.Close()
			break
		}
		if time.Now().After(end) {
			a.Fatalf("Argo CD's API server does not listen: %v", err)
		}
	}
	command := exec.Command(filepath.Join(bin, "argocd"), "app", "wait", a.app.GetName(), "--server", argoServer,
		"--plaintext",
		"--health", "--timeout", strconv.Itoa(int(timeout.Seconds())))
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + work, "TMPDIR=" + work, "ARGOCD_BINARY_NAME=argocd"}
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return err
}
