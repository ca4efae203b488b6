package gitops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

const (
	argoManager = "argocd-controller"
	autoscaler  = "horizontal-pod-autoscaler"
)

// withOthers adds the server of others to the folder of the Application, where the patch of the base does not reach.
func (a *argo) withOthers(text string) {
	a.Helper()
	a.repo.write(servers+"others.yaml", text)
	a.repo.edit(servers+"kustomization.yaml", "team/base]", "team/base, others.yaml]")
}

// quiet has Argo CD compare Git with the cluster again and again. It never finds a difference, and neither it nor
// anybody else writes.
func (a *argo) quiet(s envOf, what string) {
	a.Helper()
	a.look(a.app)
	before := still(s.Env)
	since := a.lastSync()
	for round := range rounds {
		a.look(a.app)
		if is := saidOf(a.app); is.sync != "Synced" || is.health != "Healthy" {
			a.Fatalf("round %d, %s: Argo CD says %+v of what nobody changed:\n%v", round, what, is, a.app.Object["status"])
		}
	}
	unwritten(s.Env, before, fmt.Sprintf("%d rounds of Argo CD, %s,", rounds, what))
	if now := a.lastSync(); now != since {
		a.Errorf("%s: Argo CD synced again at %s", what, now)
	}
}

// lastSync is when the last sync began.
func (a *argo) lastSync() string {
	a.Helper()
	a.Read(a.app)
	at, _, _ := unstructured.NestedString(a.app.Object, "status", "operationState", "startedAt")
	return at
}

// TestArgoWritesNothingWhereNothingChanged: 20 rounds of Argo CD beside Freehold, an autoscaler and an authorization
// controller, with each of its two ways to compare.
func TestArgoWritesNothingWhereNothingChanged(t *testing.T) {
	a := newArgo(t)
	a.withOthers(others)
	first := a.repo.push("servers")
	a.apply()
	a.healthy(first)
	s := envOf{a.On(team)}
	server := s.beside(2)
	a.quiet(s, "comparing by itself")
	a.Patch(a.app, "team", `{"metadata":{"annotations":{"argocd.argoproj.io/compare-options":"ServerSideDiff=true"}}}`)
	a.quiet(s, "comparing by dry runs")
	s.kept(server, 2)

	// A commit that changes the server leaves what the others wrote.
	a.repo.edit(servers+"others.yaml", "spec:\n", "spec:\n  env: [{name: ROUND, value: \"2\"}]\n")
	a.healthy(a.push("another variable"))
	s.kept(server, 2)
	s.Owns(server, argoManager, `spec.image`)
	s.scaled(server, 2)

	// What somebody changes beside Git comes back.
	s.Patch(server, "kubectl-edit", `{"spec":{"image":"registry.example.com/team/notes:9.9.9"}}`)
	s.Await(server, "Argo CD has healed the server", func() error {
		if server.Spec.Image != "registry.example.com/team/notes:2.0.1" {
			return fmt.Errorf("its image is %s", server.Spec.Image)
		}
		return nil
	})
}

// ourFinalizer is the item that Git and Freehold both state.
const ourFinalizer = `metadata.finalizers[="freehold.dev/mcpserver"]`

// sharesFinalizer waits until Argo CD and Freehold own it. A server that keeps it because the story failed would stay
// Terminating.
func (s envOf) sharesFinalizer(server *v1alpha1.MCPServer) {
	s.Helper()
	s.Cleanup(func() {
		if s.Failed() && s.Exists(server) {
			s.Patch(server, "kubectl", `{"metadata":{"finalizers":null}}`)
		}
	})
	s.Await(server, "both own the finalizer", func() error {
		owners := s.OwnersOf(server, ourFinalizer)
		if !slices.Contains(owners, argoManager) || !slices.Contains(owners, "mcpserver.freehold.dev/finalizer") {
			return fmt.Errorf("it is owned by %q", owners)
		}
		return nil
	})
}

// TestArgoAndAFieldOfTwo: Git states what Freehold states too, and both keep it; Git states what an autoscaler writes,
// and Git's number comes back, or, where the Application leaves the field to the autoscaler, stays its first value
// alone.
func TestArgoAndAFieldOfTwo(t *testing.T) {
	a := newArgo(t)
	a.withOthers("apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: others, finalizers: " +
		"[freehold.dev/mcpserver]}\n" +
		"spec:\n  replicas: 1\n  env: [{name: ROUND, value: \"0\"}]\n  image: registry.example.com/team/notes:2.0.1\n  " +
		"oidcConfigRef: {name: team}\n")
	first := a.repo.push("servers")
	a.apply()
	a.healthy(first)
	s := envOf{a.On(team)}
	server := &v1alpha1.MCPServer{ObjectMeta: named("others")}
	s.sharesFinalizer(server)
	a.quiet(s, "with a field that Git and Freehold both state")

	s.Scale(server, autoscaler, 3)
	s.Await(server, "Git's number is back", func() error {
		if n := *server.Spec.Replicas; n != 1 {
			return fmt.Errorf("it is %d", n)
		}
		return nil
	})
	s.Owns(server, argoManager, `spec.replicas`)

	// What the Application ignores, it neither reports nor writes, also with a commit that changes something else.
	shown := documented(t, "An autoscaler")
	for i, ignored := range []string{
		shown,
		strings.Replace(shown, "jsonPointers: [/spec/replicas]", "managedFieldsManagers: ["+autoscaler+"]", 1),
	} {
		if i > 0 && ignored == shown {
			t.Fatalf("docs/gitops.md does not ignore /spec/replicas:\n%s", shown)
		}
		merge, err := yaml.YAMLToJSON([]byte(ignored))
		a.Must(err, "reading docs/gitops.md")
		a.Patch(a.app, "team", string(merge))
		a.look(a.app)
		replicas := int32(2 + i)
		s.Read(server)
		s.Scale(server, autoscaler, replicas)
		s.scaled(server, replicas)
		a.quiet(s, "with replicas that Git states and an autoscaler writes")
		a.repo.edit(servers+"others.yaml", fmt.Sprintf("value: %q", strconv.Itoa(i)),
			fmt.Sprintf("value: %q", strconv.Itoa(i+1)))
		a.healthy(a.push("another variable"))
		s.scaled(server, replicas)
	}

	// Argo CD syncs where a field differs, and gives a field up that is the same without Git with the next change only.
	a.repo.edit(servers+"others.yaml", ", finalizers: [freehold.dev/mcpserver]", "")
	a.repo.edit(servers+"others.yaml", `value: "2"`, `value: "3"`)
	a.healthy(a.push("leave the finalizer to Freehold"))
	if owners := s.OwnersOf(server, ourFinalizer); !slices.Equal(owners, []string{"mcpserver.freehold.dev/finalizer"}) {
		t.Errorf("the finalizer that Git gave up is owned by %q", owners)
	}
	s.scaled(server, 3)
}

// TestArgoPrunes: one server that leaves Git goes with all that Freehold made for it, and the rest stays as it is; then
// everything at once, configurations and namespace with it. In the foreground, which is Argo CD's default, and in the
// background.
func TestArgoPrunes(t *testing.T) {
	for _, propagation := range []string{"foreground", "background"} {
		t.Run(propagation, func(t *testing.T) {
			a := newArgo(t)
			first := a.repo.push("servers")
			a.apply("[ServerSideApply=true]", "[ServerSideApply=true, PrunePropagationPolicy="+propagation+"]")
			a.healthy(first)
			a.repo.edit(base+"kustomization.yaml", "- notes.yaml\n", "")
			a.healthy(a.push("without notes"))
			s := envOf{a.On(team)}
			notes := &v1alpha1.MCPServer{ObjectMeta: named("notes")}
			if s.Exists(notes) {
				t.Errorf("the sync ended before the server was gone: %+v", notes)
			}
			s.childless("notes")
			search := &v1alpha1.MCPServer{ObjectMeta: named("search")}
			s.Read(search)
			if c := ready(search); c == nil || c.Status != "True" {
				t.Errorf("the server that stays says %+v", c)
			}
			a.delete(a.app, propagation)
			s.childless("search")
			s.AwaitGone(&corev1.Namespace{ObjectMeta: named(team)})
		})
	}
}
