package main

import (
	"context"
	"math"
	"time"
)

// converge measures how n new servers become ready under a subject, on a control plane of their own.
func (b *bench) converge(ctx context.Context, name string, n int) error {
	return b.on(ctx, name, func(ctx context.Context, w *world, p *subject) error { return b.bringUp(ctx, w, p, name, n) })
}

func (b *bench) bringUp(ctx context.Context, w *world, p *subject, name string, n int) error {
	idle, err := memoryOf(p)
	if err != nil {
		return err
	}
	step, err := w.measure(ctx, p, Step{Scenario: "converge", Subject: name, Servers: n},
		func() error { return w.create(ctx, n) }, question{n, "servers are ready", settled(1)})
	if err != nil {
		return err
	}
	full, err := restingMemoryOf(ctx, p)
	if err != nil {
		return err
	}
	step.Values = map[string]float64{
		"idleHeap": idle.heap, "heap": full.heap, "idleResident": idle.resident,
		"resident": full.resident,
	}
	b.record(step)
	return nil
}

func (w *world) create(ctx context.Context, n int) error {
	return w.apply(ctx, n, func(name string) string { return inPlace(name, image(1), "") })
}

// memory of a subject, in bytes.
type memory struct{ heap, resident float64 }

func memoryOf(p *subject) (memory, error) {
	a, err := p.ask(askHeap)
	if err != nil {
		return memory{}, err
	}
	all, _, err := resident(p.command.Process.Pid)
	return memory{heap: float64(a.Heap), resident: float64(all)}, err
}

// restingMemoryOf is the memory of a subject that has come to rest: what passes have in hand that send nothing any more
// would count as kept, and after many servers there are some for a while. It takes the last of two readings that are
// the same but for a fiftieth, or of a dozen.
func restingMemoryOf(ctx context.Context, p *subject) (memory, error) {
	last, err := memoryOf(p)
	for range 12 {
		if err != nil {
			return memory{}, err
		}
		if err := pause(ctx, 5*time.Second); err != nil {
			return memory{}, err
		}
		before := last.heap
		if last, err = memoryOf(p); err == nil && math.Abs(before-last.heap) < before/50 {
			break
		}
	}
	return last, err
}
