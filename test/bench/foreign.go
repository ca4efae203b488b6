package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// The foreign writers and what they write.
const (
	labeller  = "labeller"
	auditor   = "auditor"
	label     = "example.com/team"
	note      = "example.com/note"
	finalizer = "example.com/audit"
	condition = "Audited"
)

// annoyance is how long others go on writing to servers that are ready.
const annoyance = 20 * time.Second

// foreign measures how n new servers become ready, and then stay so, while two
// others write to them: one applies a label and an annotation that it changes,
// the other its own condition and a finalizer. Each writes perSecond times a
// second. A field is lost if a server is seen without it after its writer was
// told that it stands there.
func (b *bench) foreign(ctx context.Context, name string, n, perSecond int) error {
	return b.on(ctx, name, func(ctx context.Context, w *world, p *player) error {
		f := &strangers{world: w, written: map[string]map[string]string{}, lost: map[string]int{}}
		w.board.mu.Lock()
		w.board.each = f.look
		w.board.mu.Unlock()
		busy, stop := context.WithCancel(ctx)
		defer stop()
		var done sync.WaitGroup
		begin := func() error {
			for _, write := range []func(context.Context, string, int) error{f.decorate, f.audit} {
				done.Go(func() { f.loop(busy, perSecond, write) })
			}
			return w.create(ctx, n)
		}
		for _, step := range []struct {
			name  string
			begin func() error
			of    question
		}{
			{"birth", begin, question{n, "servers are ready", settled(1)}},
			{"rest", func() error { return pause(ctx, annoyance) }, question{n, "servers are still ready", settled(1)}},
		} {
			step, err := w.measure(ctx, p, Step{Scenario: "foreign", Step: step.name, Player: name, Servers: n}, step.begin, step.of)
			if err != nil {
				stop()
				done.Wait()
				return err
			}
			step.Values = f.count()
			b.record(step)
		}
		stop()
		done.Wait()
		return f.failed
	})
}

// count returns what happened since the last count.
func (f *strangers) count() map[string]float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	counted := map[string]float64{"writes": float64(f.writes), "conflicts": float64(f.conflicts), "lost": 0}
	for _, times := range f.lost {
		counted["lost"] += float64(times)
	}
	if len(f.lost) > 0 {
		say("    lost: %v", f.lost)
	}
	f.writes, f.conflicts, f.lost = 0, 0, map[string]int{}
	return counted
}

// strangers are the two foreign writers, and what they know to be written.
type strangers struct {
	world *world

	mu sync.Mutex
	// written is the resourceVersion since which a field stands, by server and
	// field.
	written           map[string]map[string]string
	lost              map[string]int
	writes, conflicts int
	failed            error
}

// loop writes to one server after the other.
func (f *strangers) loop(ctx context.Context, perSecond int, write func(context.Context, string, int) error) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		f.world.board.mu.Lock()
		names := slices.Sorted(maps.Keys(f.world.board.servers))
		f.world.board.mu.Unlock()
		if len(names) == 0 {
			continue
		}
		err := write(ctx, names[turn%len(names)], turn)
		f.mu.Lock()
		f.writes++
		switch {
		case apierrors.IsConflict(err):
			f.conflicts++
		case err != nil && ctx.Err() == nil:
			f.failed = errors.Join(f.failed, err)
		}
		f.mu.Unlock()
	}
}

// decorate applies a label, and an annotation that differs each time.
func (f *strangers) decorate(ctx context.Context, name string, turn int) error {
	return f.write(ctx, name, labeller, false, map[string]any{"metadata": map[string]any{
		"labels": map[string]any{label: "blue"}, "annotations": map[string]any{note: fmt.Sprint(turn)},
	}}, label, note)
}

// audit applies a finalizer and a condition.
func (f *strangers) audit(ctx context.Context, name string, turn int) error {
	if turn%2 == 0 {
		return f.write(ctx, name, auditor, false, map[string]any{"metadata": map[string]any{"finalizers": []any{finalizer}}}, finalizer)
	}
	return f.write(ctx, name, auditor, true, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": condition, "status": "True", "reason": "Looked", "message": fmt.Sprint(turn), "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}}, condition)
}

func (f *strangers) write(ctx context.Context, name, manager string, status bool, content map[string]any, fields ...string) error {
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("MCPServer"))
	object.SetName(name)
	object.SetNamespace(namespace)
	intent := client.ApplyConfigurationFromUnstructured(object)
	var err error
	if status {
		err = f.world.Client.Status().Apply(ctx, intent, client.FieldOwner(manager))
	} else {
		err = f.world.Client.Apply(ctx, intent, client.FieldOwner(manager))
	}
	if err != nil {
		return fmt.Errorf("writing as %s: %w", manager, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.written[name] == nil {
		f.written[name] = map[string]string{}
	}
	for _, field := range fields {
		if f.written[name][field] == "" {
			f.written[name][field] = object.GetResourceVersion()
		}
	}
	return nil
}

// look compares a state of a server with what was written to it.
func (f *strangers) look(server *v1alpha1.MCPServer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := map[string]bool{
		label: server.Labels[label] != "", note: server.Annotations[note] != "",
		finalizer: slices.Contains(server.Finalizers, finalizer),
		condition: meta.FindStatusCondition(server.Status.Conditions, condition) != nil,
	}
	for field, since := range f.written[server.Name] {
		order, err := resourceversion.CompareResourceVersion(server.ResourceVersion, since)
		if err == nil && order >= 0 && !there[field] {
			f.lost[field]++
		}
	}
}
