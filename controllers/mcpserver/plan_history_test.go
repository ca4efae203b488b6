package mcpserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// A letter is the content of a backend; the wanted one is c, under number 3.
func TestPlan_KeepsTheLastContents(t *testing.T) {
	stored := func(all ...metav1.PartialObjectMetadata) edit {
		return func(s *scene) { s.digest.Backend, s.world.Contents = "c", all }
	}
	free := func(c metav1.PartialObjectMetadata) metav1.PartialObjectMetadata { c.OwnerReferences = nil; return c }
	theirs := func(c metav1.PartialObjectMetadata) metav1.PartialObjectMetadata {
		c.OwnerReferences = ofEcho()
		c.OwnerReferences[0].UID = "earlier"
		return c
	}
	runs := func(hash string) edit {
		return func(s *scene) { s.world.Backend.Spec.Template.Annotations[workload.AnnotationBackendHash] = hash }
	}
	for name, tc := range map[string]struct {
		edits   []edit
		stores  string // the name of what is replaced follows
		removes string
	}{
		"nothing is kept":             {[]edit{stored(content(1, "a"), content(2, "b"))}, "stores", ""},
		"all is kept":                 {[]edit{stored(content(1, "a"), content(2, "b"), content(3, "c"))}, "", ""},
		"what came before it goes on": {[]edit{stored(content(1, "a"), content(2, "c"))}, "", ""},
		"it comes back":               {[]edit{stored(content(1, "c"), content(2, "b"))}, "stores echo-content-c", ""},
		"a number of no claim": {
			[]edit{stored(content(2, "c"), content(9, "b"))}, "", "",
		},
		"a fourth": {
			[]edit{stored(content(1, "a"), content(2, "b"), content(2, "d"), content(3, "c"))}, "", "echo-content-a",
		},
		"a fourth that runs": {
			[]edit{stored(content(1, "a"), content(2, "b"), content(2, "d"), content(3, "c")), runs("a")}, "", "",
		},
		"a fourth that is active": {
			[]edit{
				stored(content(1, "a"), content(2, "b"), content(2, "d"), content(3, "c")),
				func(s *scene) {
					s.server.Status.Active = &v1alpha1.ActiveBackend{BackendContent: v1alpha1.BackendContent{Slot: 1, Hash: "a"}}
				},
			}, "", "",
		},
		"a fourth and a fifth of a rollout": {
			[]edit{
				stored(content(1, "a"), content(1, "e"), content(2, "b"), content(2, "d"), content(3, "c")),
				func(s *scene) {
					s.server.Status.Rollout = &v1alpha1.RolloutStatus{
						Target: v1alpha1.BackendContent{Hash: "e"}, From: &v1alpha1.BackendContent{Hash: "a"},
					}
				},
			}, "", "",
		},
		"one of an earlier server": {
			[]edit{stored(theirs(content(1, "a")), content(2, "b"), content(2, "d"), content(3, "c"))}, "", "",
		},
		"its own of an earlier server": {[]edit{stored(theirs(content(1, "c")), content(2, "b"))}, "", ""},
		"one of nobody": {
			[]edit{stored(free(content(1, "a")), content(2, "b"), content(2, "d"), content(3, "c"))}, "", "echo-content-a",
		},
		"the spec is wrong": {[]edit{stored(content(1, "a")), invalid}, "", ""},
		"it waits":          {[]edit{stored(), waitsForConfig}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			made := up(tc.edits...).plan()
			stores, removes := "", ""
			for _, a := range actions[plan.StoreContent](made) {
				if stores = "stores"; a.Replaces != nil {
					stores += " " + a.Replaces.Name
				}
			}
			for _, a := range actions[plan.RemoveContent](made) {
				removes += a.Live.Name
			}
			if stores != tc.stores || removes != tc.removes {
				t.Errorf("it %q and removes %q", stores, removes)
			}
		})
	}
}

// contents are the numbers and images of the history of a server.
func contents(s *stored) string {
	var all []string
	for key, obj := range s.objects {
		if kept, is := obj.(*appsv1.ControllerRevision); is {
			run, err := workload.ReadContent(contentOf(read(s)).Server, kept.Data.Raw)
			rev, wrong := revision.Of(kept.Annotations)
			if err != nil || wrong != nil || rev.Generation != kept.Revision || len(rev.Hash) != len(run.Rendering.Backend) {
				s.tb.Errorf("%s: %v %v, %v", key.name, err, wrong, kept)
			}
			all = append(all, fmt.Sprintf("%d:%s", kept.Revision, run.Backend.Image))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// One write for each new content of the backend, and none for that of the proxy, or at rest.
func TestHistoryCostsAWriteForEachContentOfTheBackend(t *testing.T) {
	r, s := settled(t)
	if got := contents(s); got != "1:registry.example.com/echo:1" {
		t.Fatalf("history has %s", got)
	}
	changed := func(what string, edit func(*v1alpha1.MCPServer), want string) {
		t.Helper()
		server := read(s)
		edit(server)
		server.Generation++
		s.put(server)
		rest(t, r, s)
		s.objects[storedKey{"StatefulSet", "echo-backend"}].(*appsv1.StatefulSet).Spec.Template.
			Annotations[workload.AnnotationBackendHash] = contentOf(read(s)).Rendering.Backend
		rest(t, r, s)
		if got := contents(s); got != want {
			t.Errorf("%s: history has %s, want %s", what, got, want)
		}
	}
	image := func(image string) func(*v1alpha1.MCPServer) {
		return func(s *v1alpha1.MCPServer) { s.Spec.Image = image }
	}
	writes := s.kept
	changed("content of the proxy", func(s *v1alpha1.MCPServer) { s.Spec.Proxy.PublicURL = "https://x.example.com" },
		"1:registry.example.com/echo:1")
	if s.kept != writes {
		t.Errorf("content of the proxy is kept by %d writes", s.kept-writes)
	}
	changed("a second", image("i:2"), "1:registry.example.com/echo:1 3:i:2")
	changed("a third", image("i:3"), "1:registry.example.com/echo:1 3:i:2 4:i:3")
	changed("a fourth", image("i:4"), "3:i:2 4:i:3 5:i:4")
	changed("the second again", image("i:2"), "4:i:3 5:i:4 6:i:2")
	if got := s.kept - writes; got != 4 {
		t.Errorf("4 new contents are kept by %d writes", got)
	}
}
