package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// A candidate in the other slot gets no call and no lesser protection, and has the hash of what serves: nothing but
// names, labels and selectors tells the slots apart.
func TestSlotsDifferInNamesAndComponentAlone(t *testing.T) {
	run := sound(t, read(t, "minimal"), options).Claimed(7)
	inSlot := func(slot Slot) string {
		backend, err := Backend(run, slot)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal([]any{backend, BackendService(run, slot), HeadlessService(run, slot)})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	name := run.Server.Name
	want := strings.NewReplacer(name+"-backend", name+"-slot2",
		LabelComponent+": backend", LabelComponent+": backend-slot2").Replace(inSlot(Slot1))
	if diff := cmp.Diff(want, inSlot(Slot2)); diff != "" || want == inSlot(Slot1) {
		t.Errorf("slot 2 (-want +got):\n%s", diff)
	}
}
