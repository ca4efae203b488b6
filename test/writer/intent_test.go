package writer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// A client that decodes the server's answer into the apply configuration it was given fills it with others' fields, and
// what is left over from one item of a list bleeds into the next. Sent again it would own all of that.
func TestAnIntentOutlivesTheServersAnswer(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	d.ApplyStatus("other",
		`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo"},"status":{"conditions":[
		{"type":"Aaa","status":"True","reason":"Theirs","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	ready := conditions.Stamp(nil, v1alpha1.ConditionReady, conditions.False("Starting", ""), 7,
		server.CreationTimestamp.Time)
	intent := v1alpha1ac.MCPServer(server.Name, server.Namespace).
		WithStatus(v1alpha1ac.MCPServerStatus().WithObservedGeneration(7).WithConditions(ready))
	before := d.text(intent)

	d.put(apply.Configured, contract.MCPServerConditions, read(d, server, "echo"), intent)
	if diff := cmp.Diff(before, d.text(intent)); diff != "" {
		t.Errorf("the intent changed (-before +after):\n%s", diff)
	}

	// Somebody takes a value, so that the same intent is sent once more.
	thief := client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`))
	d.Must(plane.Client.Status().Patch(d.Ctx, read(d, server, "echo"), thief, client.FieldOwner("thief")),
		"taking a value")
	d.put(apply.Configured, contract.MCPServerConditions, read(d, server, "echo"), intent)

	live := read(d, server, "echo")
	d.Owns(live, "other", "status.conditions[type=Aaa]")
	if owners := d.OwnersOf(live, "status.conditions[type=Aaa]"); len(owners) != 1 {
		t.Errorf("the other's condition is owned by %v", owners)
	}
	for _, c := range live.Status.Conditions {
		if c.Type == "Aaa" && c.ObservedGeneration != 0 {
			t.Errorf("our observedGeneration bled into the other's condition: %+v", c)
		}
	}
	if live.Status.ObservedGeneration != 7 {
		t.Errorf("observedGeneration is %d", live.Status.ObservedGeneration)
	}
}

// What the intent no longer states is given up; what it never stated stays.
func TestAnIntentIsComplete(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data")))
	live := d.there("shared")
	d.put(apply.Configured, one, live, d.note("shared", "a", "1", "b", "2"))
	live = read(d, live, "shared")
	d.put(apply.Configured, one, live, d.note("shared", "b", "2"))
	live = read(d, live, "shared")
	if diff := cmp.Diff(map[string]string{"theirs": "x", "b": "2"}, live.Data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.OwnsNothing(live, "two")
	if live.Annotations != nil || live.OwnerReferences != nil || !cmp.Equal(live.ObjectMeta.Finalizers, []string(nil)) {
		t.Errorf("metadata grew: %+v", metav1.ObjectMeta{Annotations: live.Annotations})
	}
}
