package mcpserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

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
	ends := func(c metav1.PartialObjectMetadata) metav1.PartialObjectMetadata {
		c.DeletionTimestamp, c.Finalizers = new(metav1.NewTime(noon)), []string{"example.com/backup"}
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
		"one that ends": {
			[]edit{stored(ends(content(1, "a")), content(2, "b"), content(2, "d"), content(2, "e"), content(3, "c"))},
			"",
			"echo-content-e",
		},
		"its own ends":      {[]edit{stored(ends(content(1, "c")), content(2, "b"))}, "", ""},
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

// A policy or a quota that refuses records keeps no content from being rolled out, and makes no server unready.
func TestHistoryHoldsNothingBack(t *testing.T) {
	image := func(m *v1alpha1.MCPServer) { m.Spec.Image = "i:2" }
	same := func(*v1alpha1.MCPServer) {}
	for name, tc := range map[string]struct {
		refused string
		before  func(*stored)
		change  func(*v1alpha1.MCPServer)
		ready   metav1.ConditionStatus
	}{
		"a record of new content": {"ControllerRevision", func(*stored) {}, image, metav1.ConditionFalse},
		"a record of what serves": {
			"ControllerRevision", func(s *stored) {
				for key := range s.objects {
					if key.kind == "ControllerRevision" {
						delete(s.objects, key)
					}
				}
			}, same, metav1.ConditionTrue,
		},
		"the deletion of a fourth": {
			"deletion of ControllerRevision", func(s *stored) {
				for _, hash := range []string{"a", "b", "d", "e"} {
					kept := content(1, hash)
					kept.OwnerReferences = nil
					s.put(&appsv1.ControllerRevision{ObjectMeta: kept.ObjectMeta})
				}
			}, same, metav1.ConditionTrue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := settled(t)
			recorder := events.NewFakeRecorder(100)
			r.Events = recorder
			tc.before(s)
			edited(s, tc.change)
			s.refuse = func(kind string) error {
				if kind == tc.refused {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "x", errors.New("no more"))
				}
				return nil
			}
			rest(t, r, s)
			result, err := r.Reconcile(t.Context(), theServer)
			server := read(s)
			ready := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
			if err != nil || result.RequeueAfter == 0 || ready.Status != tc.ready ||
				ready.Reason == v1alpha1.ReasonApplyFailed {
				t.Errorf("it is tried again in %v, %v, and Ready is %v", result.RequeueAfter, err, ready)
			}
			rev, err := revision.Of(s.objects[storedKey{"Deployment", "echo-proxy"}].GetAnnotations())
			if err != nil || rev.Generation != server.Status.Workload.Generation {
				t.Errorf("the proxy is of %v, %v, and %d is claimed", rev, err, server.Status.Workload.Generation)
			}
			close(recorder.Events)
			told := ""
			for e := range recorder.Events {
				told += e
			}
			if !strings.Contains(told, "Warning HistoryNotKept") {
				t.Errorf("told is %q", told)
			}
		})
	}
}

// What is kept is rendered, so it is decided by contents of configurations that are whole.
func TestWhatIsStoredIsRendered(t *testing.T) {
	for _, tc := range []struct {
		action plan.Action
		want   bool
	}{
		{plan.StoreContent{}, true},
		{plan.RemoveContent{}, false},
		{plan.Objects{Steps: []plan.Step{{Action: plan.ApplyRunConfig{}}}}, true},
		{plan.Objects{Steps: []plan.Step{{Action: plan.ApplyProxy{}}}}, true},
		{plan.Objects{Steps: []plan.Step{{Action: plan.ApplyChild{}}}}, false},
	} {
		made := plan.Plan{Steps: []plan.Step{{Action: tc.action}}}
		if got := made.Renders(); got != tc.want {
			t.Errorf("that %T renders is %v", tc.action, got)
		}
	}
}
