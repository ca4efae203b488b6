package plugin

import (
	"bytes"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// changes asks for other content as a field manager that takes what it states, and makes passes until that runs.
func (s *story) changes(manager, image, more string) {
	s.Helper()
	s.Force(manager, kit.Server("echo", image, more))
	server := serverOf(s)
	s.Read(server)
	had := ptr.Deref(server.Status.Workload, v1alpha1.WorkloadStatus{}).Generation
	for end := time.Now().Add(s.Patience); ; time.Sleep(50 * time.Millisecond) {
		s.pass("echo")
		if s.Read(server); server.Status.Workload.Generation > had && server.Status.Runtime.Generation > had {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("it does not roll out: %+v", server.Status)
		}
	}
}

// The history of a server, and the ways back.
func TestUndoGoesBackToStoredContent(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.says(s.asks("", "rollout", "history", "echo"), 2, `"echo" not found`)
	s.serve("echo")
	s.says(s.asks("", "rollout", "undo", "echo"), 2, "there is no earlier content of MCPServer/echo to go back to")
	s.changes("kubectl", "registry.example.com/echo:2", "args: [--verbose]\nenv: [{name: MODE, value: new}]")
	got := s.asks("", "rollout", "history", "echo")
	s.says(got, 0, "registry.example.com/echo:2", "registry.example.com/echo:1", "active")
	if first, second := strings.Index(got.out, "echo:2"), strings.Index(got.out, "echo:1"); first > second {
		t.Errorf("the latest is not the first:\n%s", got.out)
	}
	s.says(s.asks("", "rollout", "history", "echo", "-o", "json"), 0, `"revision": 2`, `"undo": true`)
	server := serverOf(s)
	s.Read(server)

	s.Force("argocd-controller", kit.Server("echo", "registry.example.com/echo:2", ""))
	s.says(s.asks("", "rollout", "undo", "echo", "--yes"), 2,
		`field manager "argocd-controller" owns spec.image of MCPServer/echo`, "--force-conflicts")
	s.Read(server)
	s.says(s.asks("", "rollout", "undo", "echo", "--generation", "1"), 2,
		"has generation 2, and the command was given for 1")
	s.says(s.asks("", "rollout", "undo", "echo", "--to-revision", "9"), 2, "there is no revision 9", "2, 1")
	undo := []string{"rollout", "undo", "echo", "--force-conflicts"}
	s.says(s.asks("n\n", undo...), 2, "goes back to revision 1, image registry.example.com/echo:1:",
		`spec.image: "registry.example.com/echo:2" -> "registry.example.com/echo:1"`, `spec.args: ["--verbose"] -> nothing`,
		`spec.env: [{"name":"MODE","value":"new"}] -> nothing`, "nothing was changed")
	s.says(s.asks("", append(undo, "--dry-run")...), 0, "could go back (dry run)")
	now := serverOf(s)
	if s.Read(now); now.ResourceVersion != server.ResourceVersion {
		t.Errorf("it was written: %+v", now.Spec)
	}
	s.says(s.asks("", append(undo, "--yes", "--generation", "2")...), 0, "rollout status echo shows how far it is",
		"Change its manifest too")
	if s.Read(now); now.Spec.Image != "registry.example.com/echo:1" || now.Spec.Args != nil || now.Spec.Env != nil ||
		*now.Spec.Replicas != 1 {
		t.Errorf("its spec is %+v", now.Spec)
	}
	s.Owns(now, "kubectl-freehold", "spec.image")
	s.says(s.asks("", "rollout", "status", "echo", "--timeout", "0"), 1, "no operator has acted on its latest change yet",
		"has not rolled out in time")
}

// remakes makes the object of a revision again, otherwise: its data cannot change. It is a person's, as whoever may
// create ControllerRevisions can make one.
func (s *story) remakes(revision int64, edit func(made *appsv1.ControllerRevision, content *runconfig.Content)) {
	s.Helper()
	all := &appsv1.ControllerRevisionList{}
	s.Must(plane.Client.List(s.Ctx, all, client.InNamespace(s.Namespace)), "listing the history")
	for _, kept := range all.Items {
		if kept.Revision != revision || !workload.IsContentName("echo", kept.Name) {
			continue
		}
		content, err := runconfig.DecodeContent(kept.Data.Raw)
		s.Must(err, "reading content")
		made := kept.DeepCopy()
		made.ObjectMeta = metav1.ObjectMeta{
			Name: kept.Name, Namespace: kept.Namespace, Labels: kept.Labels, OwnerReferences: kept.OwnerReferences,
		}
		edit(made, &content)
		made.Data.Raw, err = content.Encode()
		s.Must(err, "encoding content")
		if made.Name == kept.Name {
			s.Delete(&kept)
		}
		s.Must(plane.Client.Create(s.Ctx, made), "making content")
		return
	}
	s.Fatalf("no revision %d in %+v", revision, all.Items)
}

// Where no revision is named, undo goes to the last content that the spec does not ask for, and to none of somebody
// else.
func TestUndoDoesNotGoFurtherThanAsked(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.changes("kubectl", "registry.example.com/echo:2", "")
	s.changes("kubectl", "registry.example.com/echo:3", "")
	s.Force("kubectl", kit.Server("echo", "registry.example.com/echo:3", "path: /api"))
	undo := []string{"rollout", "undo", "echo", "--force-conflicts", "--dry-run"}
	back := func(code int, says string, more ...string) {
		s.Helper()
		got := s.asks("", append(undo, more...)...)
		s.says(got, code, says)
		if strings.Contains(got.out, "spec.path") {
			s.Errorf("clients lose the path:\n%s", got.out)
		}
	}
	back(0, "goes back to revision 2, image registry.example.com/echo:2:")

	wrong := func(content *runconfig.Content) {
		content.Spec = bytes.Replace(content.Spec, []byte("registry.example.com/echo"), []byte("evil.example.com/echo"), 1)
	}
	for name, forge := range map[string]func(made *appsv1.ControllerRevision){
		"0a": func(made *appsv1.ControllerRevision) { made.OwnerReferences = nil },
		"0b": func(made *appsv1.ControllerRevision) { made.Revision = 3 },
		"0c": func(made *appsv1.ControllerRevision) { made.Revision = 999 },
	} {
		s.remakes(2, func(made *appsv1.ControllerRevision, content *runconfig.Content) {
			made.Name = "echo-content-" + name
			wrong(content)
			if forge(made); made.OwnerReferences == nil {
				made.Revision = 3
			}
		})
	}
	back(0, "goes back to revision 2, image registry.example.com/echo:2:")
	back(2, "cannot go back to revision 999: its spec cannot be trusted", "--to-revision", "999")

	s.remakes(2, func(_ *appsv1.ControllerRevision, content *runconfig.Content) { wrong(content) })
	back(2, "revision 2 of MCPServer/echo is the last that differs, and cannot be written back: "+
		"its spec cannot be trusted")
	s.remakes(2, func(_ *appsv1.ControllerRevision, content *runconfig.Content) { content.Spec = nil })
	back(2, "cannot be written back: its spec was too large")
	s.remakes(2, func(_ *appsv1.ControllerRevision, content *runconfig.Content) { content.Hash = "other" })
	back(2, "cannot be written back: content: has hash")
	back(0, "Not all of the history can be read", "--to-revision", "1")
}

// What content reads is kept nowhere.
func TestUndoSaysWhatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.Apply("kubectl", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: before}}")
	s.serve("echo")
	s.changes("kubectl", "registry.example.com/echo:2", "envFrom: [{configMapRef: {name: settings}}]")
	s.changes("kubectl", "registry.example.com/echo:3", "")
	undo := []string{"rollout", "undo", "echo", "--force-conflicts", "--dry-run"}
	s.says(s.asks("", undo...), 0, "Read as they are now (removals are not seen): ConfigMap/settings",
		"What they said when this content ran does not come back",
		"registry.example.com/echo:2 is a tag: if it leads to another image now, the one that ran does not come back")
	s.says(s.asks("", "rollout", "history", "echo", "-o", "json"), 0, `"reads": [`, `"ConfigMap/settings"`)
	time.Sleep(1100 * time.Millisecond) // managedFields have whole seconds
	s.Apply("kubectl", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: after}}")
	s.says(s.asks("", undo...), 2, "revision 2 reads ConfigMap/settings, which has been written since")
	s.says(s.asks("", append(undo, "--present-references")...), 0, "could go back")
	s.Delete(s.Intent("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}"))
	s.says(s.asks("", append(undo, "--present-references")...), 2, "which is gone and does not come back")
}

// The status is that of the last change.
func TestRolloutStatusWaitsForTheLastChange(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	done := make(chan answer)
	s.changes("kubectl", "registry.example.com/echo:2", "")
	go func() { done <- s.asks("", "rollout", "status", "echo", "--timeout", "1m") }()
	for {
		select {
		case got := <-done:
			s.says(got, 0, "MCPServer/echo has rolled out")
			s.Apply("git", kit.Server("echo", "registry.example.com/echo:2", "podTemplate: {spec: {hostNetwork: true}}"))
			s.pass("echo")
			s.says(s.asks("", "rollout", "status", "echo"), 1, "MCPServer/echo stalls: SpecInvalid: ")
			s.says(s.asks("", "rollout", "undo", "echo", "--force-conflicts", "--yes"), 0, "spec.podTemplate")
			return
		case <-time.After(100 * time.Millisecond):
			_, err := s.reconciler.Reconcile(s.Ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(serverOf(s))})
			if err != nil {
				t.Log(err)
			}
		}
	}
}
