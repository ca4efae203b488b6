package backendloop

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// slots reads a server, and the objects of its backend from the caches of their slots. Those begin with the first read
// of the slot, which the status names then, and end when it does not any more: a server at rest has those of one slot.
// Its methods must not run concurrently.
type slots struct {
	client.Reader
	ctx     context.Context //nolint:containedctx // the process's, whose caches outlast the pass that begins them
	name    string
	watch   func(ctx context.Context, slot workload.Slot, name string) (*watched, error)
	running map[workload.Slot]*watched
}

// watched are the caches of a slot.
type watched struct {
	named, headless client.Reader
	synced          func(context.Context) bool // waits until they have been read
	read            bool
	stop            context.CancelFunc
}

// Get reads from the cache that watches the object of that kind and name.
func (s *slots) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	_, service := obj.(*corev1.Service)
	for _, slot := range workload.Slots {
		headless := service && key.Name == slot.HeadlessName(s.name)
		if !headless && key.Name != slot.Name(s.name) {
			continue
		}
		w, err := s.of(slot)
		switch {
		case err != nil:
			return err
		case headless:
			return w.headless.Get(ctx, key, obj, opts...)
		}
		return w.named.Get(ctx, key, obj, opts...)
	}
	return s.Reader.Get(ctx, key, obj, opts...)
}

// of are the caches of a slot, once they have been read. One that takes too long fails the pass, which is made again:
// meanwhile the status may name other slots.
func (s *slots) of(slot workload.Slot) (*watched, error) {
	w := s.running[slot]
	if w == nil {
		ctx, stop := context.WithCancel(s.ctx)
		var err error
		if w, err = s.watch(ctx, slot, s.name); err != nil {
			stop()
			return nil, err
		}
		w.stop, s.running[slot] = stop, w
	}
	if !w.read {
		ctx, cancel := context.WithTimeout(s.ctx, readTime)
		defer cancel()
		if w.read = w.synced(ctx); !w.read {
			return nil, fmt.Errorf("the objects of %s have not been read within %s", slot.Name(s.name), readTime)
		}
	}
	return w, nil
}

// keep ends the caches of slots that were not read.
func (s *slots) keep(read map[workload.Slot]backend.Stands) {
	maps.DeleteFunc(s.running, func(slot workload.Slot, w *watched) bool {
		_, stays := read[slot]
		if !stays {
			w.stop()
		}
		return !stays
	})
}
