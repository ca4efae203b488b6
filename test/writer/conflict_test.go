package writer

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// A tool that forces a field of ours every five seconds is answered at once a few
// times, then once a minute, and everything else goes on at once meanwhile.
func TestAConflictIsRepairedOnceAMinute(t *testing.T) {
	for name, take := range map[string]struct {
		theirs func(*fixture)
		others []string
		hidden bool
	}{
		"with a tool that forces":     {(*fixture).force, []string{"somebody"}, false},
		"with one that updates":       {(*fixture).update, []string{"somebody"}, false},
		"with one that removes a key": {(*fixture).strike, nil, false},
		// As where it removes the label by which the cache knows our objects.
		"with one that hides the object": {(*fixture).strike, nil, true},
		// As a manifest that is written whole, with the annotation in it.
		"with one that hands over and takes again": {(*fixture).handOver, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := granting(ownership.Grant{
				Manager: one, Object: contract.ConfigMap, Mode: ownership.Exclusive, Create: true, Fields: ownership.Paths("data"),
			})
			rules.Takeover = &ownership.Takeover{Annotation: contract.AdoptAnnotation}
			d := under(t, rules)
			now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
			d.applier.Now = func() time.Time { return now }
			d.put(apply.Created, one, nil, d.note("note", "ours", "1"))
			_ = d.sent()
			repairs := 0
			for end := now.Add(5 * time.Minute); now.Before(end); now = now.Add(5 * time.Second) {
				take.theirs(d)
				var shown client.Object
				if !take.hidden {
					shown = read(d, &corev1.ConfigMap{}, "note")
				}
				got, err := d.applier.As(one).Apply(d.Ctx, shown, d.note("note", "ours", "1"))
				if err != nil {
					if c := cause[*apply.Conflict](d, err); c.RequeueAfter > time.Minute || !slices.Equal(c.Others, take.others) {
						t.Fatalf("it is with %v, not %v, or too long: %v", c.Others, take.others, c)
					}
					continue
				}
				repairs++
				if got.Repaired == nil || !slices.Equal(got.Repaired.Others, take.others) {
					t.Fatalf("repaired is %v, want from %v", got.Repaired, take.others)
				}
			}
			if want := 3 + 4; repairs != want {
				t.Errorf("repaired %d times in five minutes, want %d", repairs, want)
			}
			// What is new goes out at once.
			if got := d.put(apply.Configured, one, read(d, &corev1.ConfigMap{}, "note"),
				d.note("note", "ours", "2")); got.Repaired != nil {
				t.Errorf("new content is called a repair: %v", got.Repaired)
			}
			if got := read(d, &corev1.ConfigMap{}, "note").Data["ours"]; got != "2" {
				t.Errorf("it is %q", got)
			}
		})
	}
}

// What is said again after somebody changed it carries another time, and is the same all the same.
func TestAConflictOverAConditionIsRepairedOnceAMinute(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	d.server("echo", "")
	now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	d.applier.Now = func() time.Time { return now }
	// say states Ready as a pass does, by what stands.
	say := func() (apply.Outcome, error) {
		live := read(d, &v1alpha1.MCPServer{}, "echo")
		finding := conditions.True(v1alpha1.ReasonReady, "")
		return d.applier.As(contract.MCPServerConditions).
			Apply(d.Ctx, live, v1alpha1ac.MCPServer("echo", d.Namespace).WithStatus(
				v1alpha1ac.MCPServerStatus().WithObservedGeneration(live.Generation).
					WithConditions(conditions.Stamp(live.Status.Conditions, v1alpha1.ConditionReady, finding, live.Generation, now))))
	}
	_, err := say()
	d.Must(err, "saying it first")
	repairs := 0
	for end := now.Add(5 * time.Minute); now.Before(end); now = now.Add(5 * time.Second) {
		theirs := d.Intent(
			`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo"},"status":{"conditions":[
			{"type":"Ready","status":"False","reason":"Theirs","message":"no","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
		d.Must(d.Client.Status().Apply(d.Ctx, client.ApplyConfigurationFromUnstructured(theirs),
			client.FieldOwner("somebody"), client.ForceOwnership), "forcing")
		got, err := say()
		if err != nil {
			_ = cause[*apply.Conflict](d, err)
			continue
		}
		if repairs++; got.Repaired == nil {
			t.Fatal("what was repaired is called new")
		}
	}
	if want := 3 + 4; repairs != want {
		t.Errorf("repaired %d times in five minutes, want %d", repairs, want)
	}
}

// A process that has just started knows a conflict by the managers that hold its
// fields, so that it, and each of several replicas, bounds its repairs too.
func TestANewProcessKnowsAConflict(t *testing.T) {
	t.Parallel()
	d := under(t, granting(ownership.Grant{
		Manager: one, Object: contract.ConfigMap, Mode: ownership.Exclusive, Create: true, Fields: ownership.Paths("data"),
	}))
	d.put(apply.Created, one, nil, d.note("note", "ours", "1"))
	d.force()
	d.applier = d.process()
	got := d.put(apply.Configured, one, read(d, &corev1.ConfigMap{}, "note"), d.note("note", "ours", "1"))
	if got.Repaired == nil || !slices.Equal(got.Repaired.Fields, []string{".data.ours"}) {
		t.Errorf("repaired is %v", got.Repaired)
	}
}

// force, update, handOver and strike change our field with another manager's name.
func (d *fixture) force() {
	d.Helper()
	_, err := d.ApplyErr("somebody", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note}\ndata: {ours: theirs}\n",
		client.ForceOwnership)
	d.Must(err, "forcing")
}

func (d *fixture) update() {
	d.Helper()
	live := read(d, &corev1.ConfigMap{}, "note")
	live.Data["ours"] = "theirs"
	d.Must(d.Client.Update(d.Ctx, live, client.FieldOwner("somebody")), "updating")
}

func (d *fixture) handOver() {
	d.Helper()
	live := read(d, &corev1.ConfigMap{}, "note")
	live.Data["ours"] = "theirs"
	live.Annotations = map[string]string{contract.AdoptAnnotation: "true"}
	live.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	d.Must(d.Client.Update(d.Ctx, live, client.FieldOwner("somebody")), "handing over")
}

func (d *fixture) strike() {
	d.Helper()
	live := read(d, &corev1.ConfigMap{}, "note")
	delete(live.Data, "ours")
	d.Must(d.Client.Update(d.Ctx, live, client.FieldOwner("somebody")), "striking")
}
