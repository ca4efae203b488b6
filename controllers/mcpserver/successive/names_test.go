package successive

import (
	"testing"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// moved is a tag under which two pods of the target run different images.
func moved(s *scene) {
	there := s.seen.Slots[workload.Slot2]
	there.Images = []string{"sha256:1", "sha256:2"}
	s.seen.Slots[workload.Slot2] = there
}

// 24, 25: the plan names what its target has by name alone, while it is held, once it has the calls, and at rest.
func TestMake_NamesWhatContentRefersTo(t *testing.T) {
	s := at(v1alpha1.StepCheck).edit(checked(1), moved, func(s *scene) { s.want.Reads = "ConfigMap/settings" })
	const want = "pods run sha256:1, sha256:2, pods read ConfigMap/settings"
	says := func(got, when string) {
		t.Helper()
		if got != want {
			t.Errorf("%s it says %q", when, got)
		}
	}
	says(s.pass().Verdict.Step.Message, "held,")
	s.edit(approves("bbbbbbbbbb"), passes, halted, passes)
	says(s.Rollout.Steps[checkStep].Message, "after the switch")
	s.edit(slot(1, Slot{}), passes, passes)
	if s.Rollout != nil {
		t.Fatalf("it goes on: %s", text(s.pass()))
	}
	says(s.Last.Message, "at rest")
}
