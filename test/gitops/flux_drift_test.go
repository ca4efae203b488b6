package gitops

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// rounds is how often a tool compares Git with the cluster while nothing changes.
const rounds = 20

// others is a server that Git gives neither policies nor replicas, for those who write these fields beside Git.
const others = `apiVersion: freehold.dev/v1alpha1
kind: MCPServer
metadata: {name: others}
spec:
  image: registry.example.com/team/notes:2.0.1
  oidcConfigRef: {name: team}
`

// withOthers adds that server to an overlay, where the patch of the base does not reach.
func (r *repository) withOthers(environment string) {
	r.Helper()
	r.write(overlays+environment+"/others.yaml", others)
	r.edit(overlays+environment+"/kustomization.yaml", "resources: [../../base]", "resources: [../../base, others.yaml]")
}

// envOf is a namespace of the team.
type envOf struct{ *kit.Env }

// beside has an autoscaler and an authorization controller write their fields of that server.
func (s envOf) beside(replicas int32) *v1alpha1.MCPServer {
	s.Helper()
	s.Apply("authz-controller", `{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: others},
		spec: {authzConfig: {policies: [{name: readers, policy: 'permit(principal in Group::"readers", action, resource);'}]}}}`)
	server := &v1alpha1.MCPServer{ObjectMeta: named("others")}
	s.Read(server)
	s.Scale(server, "horizontal-pod-autoscaler", replicas)
	s.scaled(server, replicas)
	return server
}

// scaled waits until the backend of a server has so many replicas.
func (s envOf) scaled(server *v1alpha1.MCPServer, replicas int32) {
	s.Helper()
	s.Await(server, fmt.Sprintf("%s has %d replicas", server.Name, replicas), func() error {
		if n := server.Status.ReadyReplicas; n == nil || *n != replicas {
			return fmt.Errorf("its status is %+v", server.Status)
		}
		return nil
	})
}

// kept fails unless the two still have what they wrote.
func (s envOf) kept(server *v1alpha1.MCPServer, replicas int32) {
	s.Helper()
	s.Read(server)
	if is := ptr.Deref(server.Spec.Replicas, -1); is != replicas {
		s.Fatalf("the autoscaler's replicas are %d, not %d", is, replicas)
	}
	s.Owns(server, "authz-controller", `spec.authzConfig`)
	if server.Spec.AuthzConfig == nil || len(server.Spec.AuthzConfig.Policies) != 1 {
		s.Fatalf("the authorization controller's policies are %+v", server.Spec.AuthzConfig)
	}
}

// TestFluxWritesNothingWhereNothingChanged: 20 rounds of Flux beside Freehold, an autoscaler and an authorization
// controller.
func TestFluxWritesNothingWhereNothingChanged(t *testing.T) {
	f := newFlux(t)
	f.repo.withOthers("dev")
	first := "main@sha1:" + f.repo.push("servers")
	f.apply("dev")
	f.ready("dev", first)
	s := envOf{f.On("team-dev")}
	server := s.beside(2)
	f.reconcile(kindKustomization, "mcp-dev")
	f.ready("dev", first)
	before := still(s.Env)
	for range rounds {
		f.reconcile(kindKustomization, "mcp-dev")
	}
	f.ready("dev", first)
	unwritten(s.Env, before, fmt.Sprintf("%d rounds of Flux", rounds))

	// A commit that changes the server leaves what the others wrote.
	f.repo.edit(overlays+"dev/others.yaml", "spec:\n", "spec:\n  env: [{name: ROUND, value: \"2\"}]\n")
	f.ready("dev", f.push("another variable"))
	s.kept(server, 2)
	s.Owns(server, "kustomize-controller", `spec.image`)
	if c := ready(f.current("dev", "others")); c == nil || c.Status != "True" {
		t.Errorf("the server beside which others write says %+v", c)
	}
}

// TestFluxAndAFieldOfTwo: Git states what Freehold states too, and both keep it; Git states what an autoscaler writes,
// and Git's number comes back each time Flux looks; when Git gives it up it is the default's, until the autoscaler
// acts.
func TestFluxAndAFieldOfTwo(t *testing.T) {
	f := newFlux(t)
	f.repo.withOthers("dev")
	f.repo.edit(overlays+"dev/others.yaml", "{name: others}", "{name: others, finalizers: [freehold.dev/mcpserver]}")
	f.repo.edit(overlays+"dev/others.yaml", "spec:\n", "spec:\n  replicas: 1\n")
	first := "main@sha1:" + f.repo.push("servers")
	f.apply("dev")
	f.ready("dev", first)
	s := envOf{f.On("team-dev")}
	server := &v1alpha1.MCPServer{ObjectMeta: named("others")}
	finalizer := `metadata.finalizers[="freehold.dev/mcpserver"]`
	s.Await(server, "both own the finalizer", func() error {
		owners := s.OwnersOf(server, finalizer)
		if !slices.Contains(owners, "kustomize-controller") || !slices.Contains(owners, "mcpserver.freehold.dev/finalizer") {
			return fmt.Errorf("it is owned by %q", owners)
		}
		return nil
	})
	before := still(s.Env)
	for range rounds {
		f.reconcile(kindKustomization, "mcp-dev")
	}
	unwritten(s.Env, before, "a field that Git and Freehold both state")

	s.Read(server)
	s.Scale(server, "horizontal-pod-autoscaler", 3)
	s.scaled(server, 3)
	f.reconcile(kindKustomization, "mcp-dev")
	s.scaled(server, 1)

	// Flux applies where its dry run changes more than managedFields, and gives a field up with the next change only.
	f.repo.edit(overlays+"dev/others.yaml", "  replicas: 1\n", "  env: [{name: ROUND, value: \"2\"}]\n")
	f.repo.edit(overlays+"dev/others.yaml", ", finalizers: [freehold.dev/mcpserver]", "")
	f.ready("dev", f.push("leave replicas to the autoscaler"))
	if owners := s.OwnersOf(server, finalizer); !slices.Equal(owners, []string{"mcpserver.freehold.dev/finalizer"}) {
		t.Errorf("the finalizer that Git gave up is owned by %q", owners)
	}
	s.Read(server)
	s.Scale(server, "horizontal-pod-autoscaler", 3)
	s.scaled(server, 3)
	f.reconcile(kindKustomization, "mcp-dev")
	f.ready("dev", "main@sha1:"+f.repo.git(f.repo.dir, "rev-parse", "HEAD"))
	s.Read(server)
	if *server.Spec.Replicas != 3 {
		t.Errorf("Flux wrote replicas that Git leaves out: %d", *server.Spec.Replicas)
	}
}

// TestFluxPrunes: one server that leaves Git goes with all that Freehold made for it, and the rest stays as it is; then
// everything at once, configurations and namespace with it.
func TestFluxPrunes(t *testing.T) {
	f := newFlux(t)
	first := "main@sha1:" + f.repo.push("servers")
	f.apply("dev")
	f.ready("dev", first)
	s := envOf{f.On("team-dev")}
	f.repo.edit(base+"kustomization.yaml", "- notes.yaml\n", "")
	second := f.push("without notes")
	f.ready("dev", second)
	notes := &v1alpha1.MCPServer{ObjectMeta: named("notes")}
	s.AwaitGone(notes)
	s.childless("notes")
	search := f.current("dev", "search")
	if c := ready(search); c == nil || c.Status != "True" {
		t.Errorf("the server that stays says %+v", c)
	}
	// The operator frees a configuration when no server refers to it any more; all of them go in one pass of Flux.
	f.prune(kustomization("dev"))
}

// childless waits until nothing is left that Freehold made for a server.
func (s envOf) childless(name string) {
	s.Helper()
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{},
		&corev1.ConfigMapList{}, &corev1.PodList{},
	} {
		s.AwaitAll(list, "nothing is left of "+name, func() error {
			if left := meta.LenList(list); left > 0 {
				return fmt.Errorf("there are %d of %T", left, list)
			}
			return nil
		}, client.MatchingLabels{workload.LabelServer: name})
	}
}
