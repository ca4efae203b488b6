package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	// beat is how far apart foreign writes begin.
	beat = 40 * time.Millisecond
	// audits is a number in a server's status that no subject knows.
	audits = "audits"
)

// owners are the subjects that others write beside.
var owners = []string{freehold, "reference-update", "reference-patch"}

// act is one foreign write, to the server of a number.
type act struct {
	writer writer
	server int
	turn   int
}

// score is the order of foreign writes in one step.
type score struct {
	step string
	acts []act
}

// scores are drawn by a seed: writes to n servers while they come up, and then
// four times as many to them and their children.
func scores(seed uint64, n, writes int) []score {
	drawn, turn := rand.New(rand.NewPCG(seed, 0)), 1
	draw := func(writers []writer, writes int) []act {
		acts := make([]act, writes)
		for i := range acts {
			turn++ // image 1 is what servers are made with
			acts[i] = act{writers[drawn.IntN(len(writers))], drawn.IntN(n), turn}
		}
		return acts
	}
	return []score{
		{"birth", draw(onServers(), writes/5)},
		{"life", draw(slices.Concat(onServers(), onChildren()), writes-writes/5)},
	}
}

// ownership makes the same foreign writes, one after the other, beside each of
// the owners, and counts what is lost of them and who was answered 409.
func (b *bench) ownership(ctx context.Context, name string, n, writes int) error {
	return b.on(ctx, name, func(ctx context.Context, w *world, p *subject) error {
		return b.interleave(ctx, w, p, name, n, scores(b.report.Seed, n, writes))
	}, (*world).extend)
}

func (b *bench) interleave(ctx context.Context, w *world, p *subject, name string, n int, scores []score) error {
	o := &others{world: w, losses: newLossCount(), conflicts: map[string]int{}}
	for i, s := range scores {
		before, err := w.counted(ctx, answered409)
		if err != nil {
			return err
		}
		step, err := w.measure(ctx, p, Step{Scenario: "ownership", Step: s.step, Subject: name, Servers: n}, func() error {
			if i == 0 {
				if err := w.create(ctx, n); err != nil {
					return err
				}
			}
			return o.writeAll(ctx, s.acts)
		}, question{n, "servers are ready", rested})
		if err != nil {
			return err
		}
		if err := o.lookAtAll(ctx); err != nil {
			return err
		}
		step.Values = o.count(len(s.acts))
		after, err := w.counted(ctx, answered409)
		if err != nil {
			return err
		}
		step.Values["answers409"] = after - before
		b.record(step)
	}
	return nil
}

// rested is settled, under whatever number the server has come to.
func rested(s *v1alpha1.MCPServer) bool {
	return s.Status.Workload != nil && settled(s.Status.Workload.Generation)(s)
}

// others are the foreign writers at work.
type others struct {
	world     *world
	losses    *lossCount
	conflicts map[string]int // by writer
	unlocked  int            // of them those to writers that do not lock
}

func (o *others) writeAll(ctx context.Context, acts []act) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for _, a := range acts {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		to := target{a.writer.object.GroupVersionKind, a.writer.of(o.world.name(a.server))}
		// It may be about to write again what it lost.
		if err := o.look(ctx, to); err != nil {
			return err
		}
		if err := o.write(ctx, a, to); err != nil {
			return fmt.Errorf("writing as %s: %w", a.writer.name, err)
		}
	}
	return nil
}

// write writes, and again after a 409, as clients do.
func (o *others) write(ctx context.Context, a act, to target) error {
	says := a.writer.says(a.turn)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := a.writer.write.send(ctx, o.world.Client, to.object(), client.FieldOwner(a.writer.name), says)
		if apierrors.IsConflict(err) {
			o.conflicts[a.writer.name]++
			if !a.writer.write.locks {
				o.unlocked++
			}
		}
		return err
	})
	if err == nil {
		o.losses.wrote(a.writer.name, to, flat(says))
	}
	if apierrors.IsConflict(err) {
		return nil // it was counted, and what was said before stands
	}
	return err
}

func (t target) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(t.kind)
	object.SetNamespace(namespace)
	object.SetName(t.name)
	return object
}

func (o *others) look(ctx context.Context, at target) error {
	if o.losses.written[at] == nil {
		return nil
	}
	live := at.object()
	if err := o.world.Client.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return fmt.Errorf("looking at %s %s: %w", at.kind.Kind, at.name, err)
	}
	o.losses.look(at, flat(live.Object))
	return nil
}

func (o *others) lookAtAll(ctx context.Context) error {
	var errs []error
	for at := range o.losses.written {
		errs = append(errs, o.look(ctx, at))
	}
	return errors.Join(errs...)
}

// count returns what happened since the last count.
func (o *others) count(writes int) map[string]float64 {
	counted := map[string]float64{
		"writes": float64(writes), "lost": 0, "conflicts": 0,
		"unlocked conflicts": float64(o.unlocked),
	}
	o.unlocked = 0
	for what, byWriter := range map[string]map[string]int{"lost": o.losses.lost, "conflicts": o.conflicts} {
		for writer, times := range byWriter {
			counted[what] += float64(times)
			counted[what+" "+writer] += float64(times)
		}
		clear(byWriter)
	}
	return counted
}

// answered409 is how often the API server has answered 409 so far, to anybody.
var answered409 = regexp.MustCompile(`(?m)^apiserver_request_total\{[^}]*code="409"[^}]*\} (\S+)$`)

// counted is the sum of what the metrics of the API server that match a pattern count, in its first group.
func (w *world) counted(ctx context.Context, metrics *regexp.Regexp) (float64, error) {
	http, err := w.HTTP()
	if err != nil {
		return 0, err
	}
	text, err := http.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	total := 0.0
	for _, found := range metrics.FindAllSubmatch(text, -1) {
		times, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return 0, fmt.Errorf("reading the API server's metrics: %w", err)
		}
		total += times
	}
	return total, nil
}

// extend gives servers a number in their status that no subject knows, as when
// their definition is of a later release than the operator.
func (w *world) extend(ctx context.Context) error {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(
		schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	definition.SetName("mcpservers." + v1alpha1.SchemeGroupVersion.Group)
	patch := `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/` + audits +
		`","value":{"type":"integer","format":"int64"}}]`
	if err := w.Client.Patch(ctx, definition, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		return fmt.Errorf("extending the kind: %w", err)
	}
	// The API server holds to a definition some time after it took it.
	if err := w.create(ctx, 1); err != nil {
		return err
	}
	first := target{contract.MCPServer.GroupVersionKind, w.name(0)}
	often := wait.Backoff{Duration: 100 * time.Millisecond, Steps: 10 * int(kit.Patience.Seconds())}
	err := retry.OnError(often, func(error) bool { return ctx.Err() == nil }, func() error {
		return sendStatus(ctx, w.Client, first.object(), auditor, map[string]any{"status": map[string]any{audits: int64(1)}})
	})
	if err != nil {
		return fmt.Errorf("waiting for the extended kind: %w", err)
	}
	return w.clear(ctx, 1)
}
