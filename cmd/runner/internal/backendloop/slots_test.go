package backendloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// cached is a cache that tells by which name it was asked.
type cached struct {
	client.Reader
	name string
	told *[]string
}

func (c cached) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	*c.told = append(*c.told, c.name+": "+key.Name)
	return nil
}

// A slot is watched from when the status names it until it does not any more, and read from its own caches.
func TestASlotIsWatchedWhileTheStatusNamesIt(t *testing.T) {
	var told []string
	watches := map[workload.Slot]context.Context{}
	broken, late := false, false
	s := &slots{
		Reader: cached{name: "owner", told: &told}, ctx: t.Context(), name: "echo", running: map[workload.Slot]*watched{},
		watch: func(ctx context.Context, slot workload.Slot, name string) (*watched, error) {
			if broken {
				return nil, errors.New("no")
			}
			told, watches[slot] = append(told, fmt.Sprintf("watch %d of %s", slot, name)), ctx
			return &watched{
				named:    cached{name: fmt.Sprintf("slot %d", slot), told: &told},
				headless: cached{name: fmt.Sprintf("headless %d", slot), told: &told},
				synced:   func(context.Context) bool { return !late },
			}, nil
		},
	}
	running := func() (slots []workload.Slot) {
		for slot, ctx := range watches {
			if ctx.Err() == nil {
				slots = append(slots, slot)
			}
		}
		slices.Sort(slots)
		return slots
	}
	reads := func(slot workload.Slot) {
		for name, obj := range map[string]client.Object{
			slot.Name("echo"): &appsv1.StatefulSet{}, slot.HeadlessName("echo"): &corev1.Service{},
		} {
			_ = s.Get(t.Context(), client.ObjectKey{Name: name}, obj)
		}
	}
	keeps := func(read ...workload.Slot) {
		kept := map[workload.Slot]backend.Stands{}
		for _, slot := range read {
			kept[slot] = backend.Stands{}
		}
		s.keep(kept)
	}
	for _, step := range []struct {
		name string
		do   func()
		told []string
		run  []workload.Slot
	}{
		{"the owner", func() {
			_ = s.Get(t.Context(), client.ObjectKey{Name: "echo"}, &v1alpha1.MCPServer{})
		}, []string{"owner: echo"}, nil},
		{"one slot", func() { reads(workload.Slot1) }, []string{
			"headless 1: echo-backend-headless", "slot 1: echo-backend", "watch 1 of echo",
		}, []workload.Slot{1}},
		{"again", func() { keeps(1); reads(workload.Slot1) }, []string{
			"headless 1: echo-backend-headless", "slot 1: echo-backend",
		}, []workload.Slot{1}},
		{"it cannot be watched", func() { broken = true; reads(workload.Slot2) }, nil, []workload.Slot{1}},
		{"another one", func() { broken = false; reads(workload.Slot2) }, []string{
			"headless 2: echo-slot2-headless", "slot 2: echo-slot2", "watch 2 of echo",
		}, []workload.Slot{1, 2}},
		{"its caches take long, and one pass fails after the other", func() {
			s.running[workload.Slot2].read, late = false, true
			reads(workload.Slot2)
		}, nil, []workload.Slot{1, 2}},
		{"they have been read", func() { late = false; reads(workload.Slot2) }, []string{
			"headless 2: echo-slot2-headless", "slot 2: echo-slot2",
		}, []workload.Slot{1, 2}},
		{"both are named", func() { keeps(1, 2) }, nil, []workload.Slot{1, 2}},
		{"the first is not any more", func() { keeps(2) }, nil, []workload.Slot{2}},
		{"and is named anew", func() { reads(workload.Slot1) }, []string{
			"headless 1: echo-backend-headless", "slot 1: echo-backend", "watch 1 of echo",
		}, []workload.Slot{1, 2}},
	} {
		told = nil
		step.do()
		slices.Sort(told)
		if diff := cmp.Diff(step.told, told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.run, running()); diff != "" {
			t.Errorf("%s: watches run (-want +got):\n%s", step.name, diff)
		}
	}
}
