package writer

import (
	"slices"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// After a reset of managedFields the API server attributes all fields to a manager
// that stands for nobody, beside us. They are taken from it, so that what is not
// stated any more goes: of our objects, of our finalizer, and of the user's spec.
func TestWhatAResetForgotIsTakenOver(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", full)
	all := append(d.children(server, d.content(server, 1)), d.statements(server)[0])
	for _, s := range all {
		_, err := d.applier.As(s.manager).Apply(d.Ctx, d.live(s), s.ac, s.opts...)
		d.Must(err, "putting "+s.String())
		d.Patch(d.live(s), "dashboard", `{"metadata":{"labels":{"example.com/team":"red"}}}`)
	}
	d.settle("echo")
	for round := range 2 { // a reset can come again
		for _, s := range all {
			d.Patch(d.live(s), "editor", `{"metadata":{"managedFields":[{}]}}`)
			d.put(apply.Configured, s.manager, d.live(s), s.ac, s.opts...)
			got := d.put(apply.Configured, s.manager, d.live(s), s.ac, s.opts...)
			if got.TakenOver == nil || !slices.Equal(got.TakenOver.From, []string{ownership.BeforeFirstApply}) {
				t.Fatalf("round %d: %s took over %v", round, s, got.TakenOver)
			}
			d.put(apply.Unchanged, s.manager, d.live(s), s.ac, s.opts...)
			live := d.live(s)
			// The backend's scale is another manager's, who does the same.
			if wrong := d.wrongly(live); len(wrong) > 0 && !strings.HasPrefix(wrong[0], "spec.replicas ") {
				t.Errorf("%s: %v", s, wrong)
			}
			if live.GetLabels()["example.com/team"] != "red" {
				t.Errorf("%s: a label of others is gone", s)
			}
		}
	}
	_ = d.server("echo", full) // as whoever applies it does, again and again
	d.stopsStating()
	finalizer := all[len(all)-1]
	d.Must(d.applier.As(finalizer.manager).Release(d.Ctx, d.live(finalizer)), "releasing the finalizer")
	if left := d.live(finalizer).GetFinalizers(); len(left) > 0 {
		t.Errorf("the finalizers are %v", left)
	}
}

// The first write after a reset may be one to the status. The API server then attributes the status to a manager that
// stands for nobody, and takes no managedFields from a write there: the writer of the main resource gives it back.
func TestAStatusThatAResetForgotGoesBack(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", full)
	var own []statement
	for _, s := range d.statements(server) {
		if d.gvk(s.empty).Kind == "MCPServer" {
			own = append(own, s)
		}
	}
	for _, s := range own {
		d.state(apply.Configured, s)
	}
	finalizer, statuses := own[0], own[1:]
	for _, first := range statuses {
		d.applier = d.process() // one process would call the fourth reset a fight
		d.Patch(d.live(finalizer), "editor", `{"metadata":{"managedFields":[{}]}}`)
		d.state(apply.Configured, first)
		for _, s := range own {
			_, err := d.applier.As(s.manager).Apply(d.Ctx, d.live(s), s.ac, s.opts...)
			d.Must(err, "putting "+s.String())
		}
		for _, s := range own {
			d.state(apply.Unchanged, s)
		}
		if wrong := d.wrongly(d.live(finalizer)); len(wrong) > 0 {
			t.Errorf("after %s: %v", first, wrong)
		}
	}
}
