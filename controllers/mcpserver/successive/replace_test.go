package successive

import (
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

func TestMake_InPlace(t *testing.T) {
	broken := Slot{Stands: true, Content: of("b", 2)}
	none := func(s *scene) { s.Status, s.seen.Slots = Status{}, map[workload.Slot]Slot{} }
	run(t, map[string]row{
		"first content":              {asksFor("a", 1).edit(none), "Rest; 1:a1; empty [2]"},
		"rest":                       {asksFor("a", 1), "Rest; 1:a1; empty [2]"},
		"other content of the proxy": {asksFor("a", 5), "Rest; 1:a1; empty [2]"},
		"Replace": {
			asksFor("b", 2).edit(replaces), "Rest; 1:b2; empty [2]",
		},
		"2: what is active does not serve": {
			asksFor("b", 2).edit(inPlace), "Rest; 1:b2; empty [2]",
		},
		"3: nor does a candidate": {
			at(v1alpha1.StepCandidate).edit(wants("c", 3), inPlace, slot(2, Slot{Stands: true, Content: of("b", 2)})),
			"Rest; 1:c3; Cancelled b2#1 ContentChanged; empty [2]",
		},
		"while sessions of other content end": {
			at(v1alpha1.StepDrain).edit(wants("c", 3), inPlace),
			"Ending; 2:c3; to 2:c3 from 1:a1 Drain SessionsOpen; Succeeded b2#1",
		},
		"while sessions end of content that may have its disk": {
			at(v1alpha1.StepDrain).edit(wants("c", 3), replaces),
			"Ending; 2:c3; to 2:c3 Teardown BackendTerminating; Succeeded b2#1; empty [1]",
		},
		"the content whose sessions end": {
			at(v1alpha1.StepDrain).edit(wants("a", 3), inPlace),
			"Ending; 1:a3; to 1:a3 from 2:b2 Acknowledge NotAcknowledged; Succeeded b2#1",
		},
		"the content before, while what has the calls does not serve": {
			at(v1alpha1.StepAcknowledge).edit(wants("a", 3), inPlace, slot(2, broken)),
			"Ending; 1:a3; to 1:a3 from 2:b2 Acknowledge NotAcknowledged; Succeeded b2#1",
		},
		"and what has the calls goes": {
			at(v1alpha1.StepDrain).edit(wants("a", 3), inPlace, slot(2, broken), passes, later(time.Minute)),
			"Ending; 1:a3; to 1:a3 Teardown BackendTerminating; Succeeded b2#1; empty [2]",
		},
		"the content before, which is not ready": {
			at(v1alpha1.StepDrain).edit(wants("a", 3), inPlace, slot(1, Slot{Stands: true, Content: of("a", 1)})),
			"Ending; 2:a3; to 2:a3 Teardown BackendTerminating; Succeeded b2#1; empty [1]",
		},
		"a candidate that gets ready before its slot is emptied": {
			at(v1alpha1.StepCandidate).edit(replaces, passes, slot(2, up(of("b", 2)))),
			"Ending; 2:b2; to 2:b2 from 1:a1 Acknowledge NotAcknowledged; Cancelled b2#1 StrategyChanged",
		},
		"a candidate that has replaced what had the calls": {
			at(v1alpha1.StepCandidate).edit(
				replaces, passes, slot(1, Slot{Stands: true, Content: of("b", 2)}), slot(2, up(of("b", 2))),
			),
			"Ending; 2:b2; to 2:b2 Teardown BackendTerminating; Cancelled b2#1 StrategyChanged; empty [1]",
		},
		"the content before, of which no plan says that it stands": {
			at(v1alpha1.StepDrain).edit(wants("a", 3), inPlace, slot(2, broken), loses),
			"Ending; 1:a3; to 1:a3 from 2:b2 Acknowledge NotAcknowledged",
		},
	})
}
