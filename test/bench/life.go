package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// life measures what happens to n servers that Freehold has brought up: another image, other replicas, a restart of the
// operator, deletion; with the floor another image and deletion.
func (b *bench) life(ctx context.Context, name string, n int) error {
	return b.on(ctx, freehold, func(ctx context.Context, w *world, p *subject) error {
		ready := question{n, "servers are ready", settled(1)}
		if err := w.create(ctx, n); err != nil {
			return err
		}
		if _, err := w.tracker.await(ctx, ready.servers, ready.what, ready.of); err != nil {
			return err
		}
		if _, err := p.rest(ctx, w.calm); err != nil {
			return err
		}
		return b.instead(ctx, w, p, name, func(p *subject) error { return b.live(ctx, w, p, name, n) })
	})
}

// live takes n servers that are ready through the rest of their lives.
func (b *bench) live(ctx context.Context, w *world, p *subject, name string, n int) error {
	step := Step{Scenario: "life", Subject: name, Servers: n}
	measures := []func(context.Context, *world, *subject, Step) error{b.change, b.remove}
	if name == freehold {
		measures = []func(context.Context, *world, *subject, Step) error{b.change, b.scale, b.restart}
	}
	for _, measure := range measures {
		if err := measure(ctx, w, p, step); err != nil {
			return err
		}
	}
	return nil
}

// change gives every server another image.
func (b *bench) change(ctx context.Context, w *world, p *subject, step Step) error {
	step.Step = "image"
	step, err := w.measure(ctx, p, step, func() error {
		return w.apply(ctx, step.Servers, func(name string) string { return inPlace(name, image(2), "") })
	}, question{step.Servers, "servers run the other image", settled(2)})
	if err == nil {
		b.record(step)
	}
	return err
}

// scale gives every server a second replica, as an autoscaler does.
func (b *bench) scale(ctx context.Context, w *world, p *subject, step Step) error {
	step.Step = "replicas"
	before, err := w.pods(ctx)
	if err != nil {
		return err
	}
	two := func(s *v1alpha1.MCPServer) bool { return *s.Spec.Replicas == 2 && settled(2)(s) }
	step, err = w.measure(ctx, p, step, func() error {
		return each(ctx, step.Servers, func(i int) error {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`))
			return w.Client.Patch(ctx, w.server(i), patch, client.FieldOwner("horizontal-pod-autoscaler"))
		})
	}, question{step.Servers, "servers have two replicas", two})
	if err != nil {
		return err
	}
	after, err := w.pods(ctx)
	if err != nil {
		return err
	}
	rolled := 0
	for uid := range before {
		if !after[uid] {
			rolled++
		}
	}
	step.Values = map[string]float64{"podsRolled": float64(rolled)}
	b.record(step)
	return nil
}

// restart restarts the operator, which then sees every server deleted.
func (b *bench) restart(ctx context.Context, w *world, p *subject, step Step) error {
	if err := p.stop(); err != nil {
		return err
	}
	restarted := step
	restarted.Step = "restart"
	begin := time.Now()
	p, err := b.subject(ctx, w, freehold)
	if err != nil {
		return err
	}
	defer p.stop() // the first of two is enough
	restarted.Seconds = time.Since(begin).Seconds()
	if restarted.Counts, err = p.rest(ctx, 2*w.calm); err != nil {
		return err
	}
	say("  %s", restarted.line())
	b.record(restarted)
	return b.remove(ctx, w, p, step)
}

// remove deletes every server.
func (b *bench) remove(ctx context.Context, w *world, p *subject, step Step) error {
	step.Step = "delete"
	step, err := w.measure(ctx, p, step, func() error {
		return each(ctx, step.Servers, func(i int) error {
			return w.Client.Delete(ctx, w.server(i))
		})
	}, question{0, "servers are left", gone})
	if err == nil {
		b.record(step)
	}
	return err
}

// pods are the uids of the pods that are there and do not end.
func (w *world) pods(ctx context.Context) (map[string]bool, error) {
	list := &corev1.PodList{}
	if err := w.reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	found := map[string]bool{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			found[string(list.Items[i].UID)] = true
		}
	}
	return found, nil
}
