package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
)

const (
	// flooded is the namespace of a tenant who makes trouble; the others' server is in namespace.
	flooded = "tenant"
	// quiet is the others' server, and hop the floor's beside it.
	quiet, hop = "quiet", "hop"
)

// floods are what the tenant does, in turn.
type flood struct {
	step    string
	servers int
	// do makes the flood, and returns when it has made all of it. It runs beside the
	// measuring, which ends some seconds after it.
	do func(context.Context, *world) error
}

// tenant measures, with the operator's own binary under the chart's memory limit, how long
// a change of a server waits while another namespace is flooded, and beside it a floor.
func (b *bench) tenant(ctx context.Context, sizes tenantSizes) error {
	return b.onWorld(ctx, func(ctx context.Context, w *world) error {
		err := w.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: flooded}})
		if err != nil {
			return fmt.Errorf("creating the tenant's namespace: %w", err)
		}
		op, err := b.supervise(ctx, w)
		if err != nil {
			return err
		}
		err = b.flooded(ctx, w, op, sizes)
		return errors.Join(err, op.stop())
	})
}

func (b *bench) flooded(ctx context.Context, w *world, op *supervised, sizes tenantSizes) error {
	other, err := newNeighbour(ctx, w)
	if err != nil {
		return err
	}
	defer other.stop()
	if err := other.sample(ctx); err != nil { // it is up
		return err
	}
	for _, f := range sizes.floods() {
		say("  tenant %s: %d", f.step, f.servers)
		step, err := other.during(ctx, func(ctx context.Context) error { return f.do(ctx, w) })
		if err != nil {
			return fmt.Errorf("tenant %s: %w", f.step, err)
		}
		step.Scenario, step.Step, step.Subject, step.Servers = "tenant", f.step, freehold, f.servers
		step.Values["resident peak"], step.Values["restarts"] = float64(op.peak.Swap(0)), float64(op.restarts.Swap(0))
		b.record(step)
		say("  tenant %s: delay %.2f s, most %.2f; floor %.2f, most %.2f; bare informer %.2f, closed %.0f, of all %.0f; "+
			"peak %.0f MB, %.0f restarts", f.step,
			step.Values["delay"], step.Values["delay most"], step.Values["floor"], step.Values["floor most"],
			step.Values["bare most"], step.Values["bare closed"],
			step.Values["closed"], step.Values["resident peak"]/megabyte, step.Values["restarts"])
	}
	return nil
}

// neighbour changes a server of a namespace that nobody floods.
type neighbour struct {
	w       *world
	turn    int
	proxies watch.Interface
	twins   watch.Interface
	delays  []float64
	floors  []float64
	bare    *bare
}

func newNeighbour(ctx context.Context, w *world) (*neighbour, error) {
	if err := w.defineTwin(ctx); err != nil {
		return nil, err
	}
	n := &neighbour{w: w, bare: &bare{begun: map[int]time.Time{}}}
	informer, err := w.reader.GetInformer(ctx, &v1alpha1.MCPServer{})
	if err == nil {
		_, err = informer.AddEventHandler(n.bare.handler())
	}
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	in := client.InNamespace(namespace)
	n.proxies, err = w.Client.Watch(ctx, &appsv1.DeploymentList{}, in)
	if err == nil {
		n.twins, err = w.Client.Watch(ctx, twins(), in)
	}
	return n, err
}

func (n *neighbour) stop() {
	n.proxies.Stop()
	n.twins.Stop()
}

// during samples while a flood is made, and after it for a while.
func (n *neighbour) during(ctx context.Context, flood func(context.Context) error) (Step, error) {
	n.delays, n.floors = nil, nil
	n.bare.most()
	before, err := n.w.counted(ctx, closedWatches)
	if err != nil {
		return Step{}, err
	}
	watched := n.w.watched.read()
	done := make(chan error, 1)
	begin := time.Now()
	go func() { done <- flood(ctx) }()
	var end <-chan time.Time
	for {
		if err := n.sample(ctx); err != nil {
			return Step{}, err
		}
		select {
		case err := <-done:
			if err != nil {
				return Step{}, err
			}
			end = time.After(afterwards)
		case <-end:
			closed, err := n.w.counted(ctx, closedWatches)
			slices.Sort(n.delays)
			slices.Sort(n.floors)
			last := len(n.delays) - 1
			return Step{Seconds: time.Since(begin).Seconds(), Values: map[string]float64{
				"samples": float64(len(n.delays)), "delay": n.delays[last/2], "delay most": n.delays[last],
				"floor": n.floors[last/2], "floor most": n.floors[last], "bare most": n.bare.most(),
				"closed": closed - before, "bare closed": float64(
					n.w.watched.read().since(watched).where(ofServers).sum().Requests),
			}}, err
		case <-ctx.Done():
			return Step{}, ctx.Err()
		case <-time.After(between):
		}
	}
}

const (
	// between is how long the neighbour waits between two changes, and afterwards how long
	// it goes on after the last object of a flood is made.
	between, afterwards = 200 * time.Millisecond, 5 * time.Second
)

// sample takes the floor, then the delay of one change.
func (n *neighbour) sample(ctx context.Context) error {
	floor, err := n.floor(ctx)
	if err != nil {
		return err
	}
	delay, err := n.change(ctx)
	n.delays, n.floors = append(n.delays, delay), append(n.floors, floor)
	return err
}

// change is how long the operator takes from a changed spec to the Deployment that has it.
func (n *neighbour) change(ctx context.Context) (float64, error) {
	n.turn++
	object, err := n.w.read(inPlace(quiet, image(1), fmt.Sprintf("args: [%q]", fmt.Sprint(n.turn))))
	if err != nil {
		return 0, err
	}
	key := client.ObjectKey{Namespace: namespace, Name: quiet + "-proxy"}
	before := &appsv1.Deployment{}
	err = insist(ctx, func() error { return client.IgnoreNotFound(n.w.Client.Get(ctx, key, before)) })
	if err != nil {
		return 0, err
	}
	was, _ := revision.Of(before.Annotations)
	begin := time.Now()
	n.bare.begin(n.turn)
	if err := n.w.put(ctx, object); err != nil {
		return 0, err
	}
	err = await(ctx, n.proxies, func(d *appsv1.Deployment) bool {
		now, err := revision.Of(d.Annotations)
		return err == nil && d.Name == key.Name && now.Generation > was.Generation
	})
	return time.Since(begin).Seconds(), err
}

// await waits for an object that a watch shows.
func await[T client.Object](ctx context.Context, watched watch.Interface, right func(T) bool) error {
	for {
		select {
		case e, ok := <-watched.ResultChan():
			if !ok {
				return errors.New("the bench's watch has ended")
			}
			if object, is := e.Object.(T); is && right(object) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tenant is what the floods came to.
func (r *Report) tenant(text *strings.Builder) {
	all := slices.DeleteFunc(slices.Clone(r.Steps), func(s Step) bool { return s.Scenario != "tenant" })
	table(text, "flood of a tenant\tobjects\tchanges of another\tdelay s\tmost\tfloor s\tmost\twatch s\tclosed\tof "+
		"all\tpeak MB\trestarts\t", all, func(s Step) string {
		v := s.Values
		return fmt.Sprintf("%s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t", s.Step, s.Servers,
			v["samples"], v["delay"], v["delay most"],
			v["floor"], v["floor most"], v["bare most"], v["bare closed"], v["closed"], v["resident peak"]/megabyte,
			v["restarts"])
	})
}

// ofATenant are the targets: what a flood may do to others.
func ofATenant() []goal {
	var all []goal
	for _, step := range []string{"rest", "made", "edits", "more", "followers", "config"} {
		all = append(all, goal{
			"tenant, " + step + ": seconds until another's change is out", 0.6,
			of("tenant", step, 0, value("delay most", 1)),
		},
			goal{
				"tenant, " + step + ": the same, times the floor", 1.3,
				of("tenant", step, 0, func(s Step) float64 { return s.Values["delay"] / s.Values["floor"] }),
			})
	}
	for _, step := range []string{"deep", "large servers", "large configurations"} {
		all = append(all, goal{
			"tenant, " + step + ": restarts of the operator", 0,
			of("tenant", step, 0, value("restarts", 1)),
		})
	}
	return all
}
