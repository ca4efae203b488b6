package apply

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
)

// An intent is read by its schema once, and again where the object may be another one than it was found to be.
func TestAnIntentIsReadAgainWhereItMayBeLost(t *testing.T) {
	type edit func(*appsv1.Deployment)
	moved := func(d *appsv1.Deployment) { d.ResourceVersion = "6" }
	for name, tc := range map[string]struct {
		edits []edit
		want  bool
	}{
		"nothing happened":   {nil, true},
		"its status changed": {[]edit{moved, func(d *appsv1.Deployment) { d.Status.Replicas = 1 }}, true},
		"its spec changed":   {[]edit{moved, func(d *appsv1.Deployment) { d.Generation++ }}, false},
		"a label is gone":    {[]edit{moved, func(d *appsv1.Deployment) { d.Labels = nil }}, false},
		"an annotation came": {[]edit{
			moved,
			func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"} },
		}, false},
		"a finalizer came":         {[]edit{moved, func(d *appsv1.Deployment) { d.Finalizers = []string{"a"} }}, false},
		"it has no owner any more": {[]edit{moved, func(d *appsv1.Deployment) { d.OwnerReferences = nil }}, false},
		"its fields have no owner": {[]edit{moved, func(d *appsv1.Deployment) { d.ManagedFields = nil }}, false},
		"it goes": {
			[]edit{moved, func(d *appsv1.Deployment) { d.DeletionTimestamp = new(metav1.Now()) }},
			false,
		},
		"it is another one": {[]edit{func(d *appsv1.Deployment) { d.UID = "other" }}, false},
		"another writer came": {[]edit{moved, func(d *appsv1.Deployment) {
			d.ManagedFields = append(d.ManagedFields, metav1.ManagedFieldsEntry{Manager: "other", Operation: "Update"})
		}}, false},
		"nobody counts its generations": {[]edit{moved, func(d *appsv1.Deployment) { d.Generation = 0 }}, false},
	} {
		w, intent := writerOf(mine), yamlIntent(t, deployed)
		live := carrying(t, "5")
		found := Outcome{UID: live.UID, ResourceVersion: live.ResourceVersion}
		if w.matches(live, intentOf(intent, nil)) {
			t.Fatal("it is taken for found before it was")
		}
		w.remember(live, intentOf(intent, nil), found, false)
		for _, edit := range tc.edits {
			edit(live)
		}
		if got := w.matches(live, intentOf(yamlIntent(t, deployed), nil)); got != tc.want {
			t.Errorf("%s: it carries the intent: %t, want %t", name, got, tc.want)
		}
	}
}

func TestWhatWasFoundIsOfOneIntent(t *testing.T) {
	w, live := writerOf(mine), carrying(t, "5")
	found := Outcome{UID: live.UID, ResourceVersion: live.ResourceVersion}
	asked := intentOf(yamlIntent(t, deployed), nil)
	w.remember(live, asked, found, false)
	if other := intentOf(yamlIntent(t, deployed), []Option{AtVersion}); w.matches(live, other) {
		t.Error("it is that of other options")
	}
	if w.applier.As("other").matches(live, asked) {
		t.Error("it is that of another manager")
	}
	// What is on its way to the cache is another content than what the cache shows.
	w.remember(live, intentOf(yamlIntent(t, baseServer+`}}`), nil),
		Outcome{Result: Configured, UID: live.UID, ResourceVersion: "7"}, false)
	if w.matches(live, asked) {
		t.Error("other content was written since")
	}
	w.remember(live, asked, Outcome{UID: live.UID, ResourceVersion: "7"}, false)
	if w.matches(live, asked) {
		t.Error("it was found in what the cache does not show")
	}
	// A status has no generation.
	w.remember(live, asked, found, true)
	if live.ResourceVersion = "6"; w.matches(live, asked) {
		t.Error("the status may be another one")
	}
}

// carrying is the Deployment that the intent says.
func carrying(t *testing.T, version string) *appsv1.Deployment {
	t.Helper()
	server := newAPIServer(t, contract.Deployment.GroupVersionKind)
	server.apply(string(mine), deployed)
	live := server.live(&appsv1.Deployment{}).(*appsv1.Deployment)
	live.ResourceVersion, live.Generation, live.Labels = version, 3, map[string]string{"a": "b"}
	live.OwnerReferences = []metav1.OwnerReference{{UID: "owner"}}
	if ownership.Entry(live.ManagedFields, mine, "") == nil {
		t.Fatal("nobody applied it")
	}
	return live
}

// The caller's name of an intent is remembered for as long as what was found with it.
func TestAnIntentHasTheCallersName(t *testing.T) {
	w, live := writerOf(mine), carrying(t, "5")
	found := Outcome{UID: live.UID, ResourceVersion: live.ResourceVersion}
	if w.RememberAs(live, "first", found); w.RememberedAs(live) != "" {
		t.Error("nothing was found, and it has a name")
	}
	w.remember(live, intentOf(yamlIntent(t, deployed), nil), found, false)
	w.RememberAs(live, "first", found)
	if live.ResourceVersion = "6"; w.RememberedAs(live) != "first" {
		t.Errorf("it is called %q", w.RememberedAs(live))
	}
	live.Generation, live.ResourceVersion = live.Generation+1, "7"
	if w.RememberedAs(live) != "" {
		t.Errorf("it has changed, and is called %q", w.RememberedAs(live))
	}
}
