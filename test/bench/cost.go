package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/freehold-dev/freehold/test/kit"
)

// passes are made over all objects in a step.
const passes = 5

// cost measures what passes over the proxies of n servers cost, a Deployment and a Service each, by each method. The
// control plane is an API server alone, so that nobody else writes, and has no policies, so that all are judged alike.
func (b *bench) cost(ctx context.Context, n int) error {
	plane, err := kit.Start(ctx, kit.Alone(), kit.PriorityAndFairness())
	if err == nil {
		err = b.costs(ctx, plane, n, 500*time.Millisecond)
	}
	return errors.Join(err, plane.Stop())
}

func (b *bench) costs(ctx context.Context, plane *kit.Plane, n int, lingers time.Duration) error {
	ids, err := children()
	if err != nil {
		return err
	}
	processes := map[string]int{"kube-apiserver": ids["kube-apiserver"], "etcd": ids["etcd"], "subject": os.Getpid()}
	for _, m := range methods() {
		p := &costRun{
			plane: plane, namespace: "cost-" + m.name, servers: n, processes: processes,
			requests: newRequestCounter(), lingers: lingers,
		}
		if err := b.costOf(ctx, p, m); err != nil {
			return fmt.Errorf("the cost of %s: %w", m.name, err)
		}
	}
	return nil
}

// costOf takes a method through its steps: objects at rest, in a process that remembers nothing; the same after
// somebody else wrote to each; and after something else is wanted of each. How they were made is not measured.
func (b *bench) costOf(ctx context.Context, p *costRun, m method) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := p.open(ctx); err != nil {
		return err
	}
	if err := p.pass(ctx, m.begin(p), 1); err != nil {
		return err
	}
	converge := m.begin(p)
	for _, s := range []struct {
		name    string
		version int
		before  func(context.Context) error
	}{
		{"rest", 1, nil}, {"touched", 1, p.touch}, {"changed", 2, nil},
	} {
		if s.before != nil {
			if err := s.before(ctx); err != nil {
				return err
			}
		}
		step, err := p.measure(ctx, Step{Scenario: "cost", Step: s.name, Subject: m.name, Servers: p.servers}, converge,
			s.version)
		if err != nil {
			return err
		}
		b.record(step)
	}
	return nil
}

// measure makes passes, and adds up what the processes use meanwhile and shortly after.
func (p *costRun) measure(ctx context.Context, s Step, converge converge, version int) (Step, error) {
	if err := p.catchUp(ctx); err != nil {
		return s, err
	}
	before := p.requests.read()
	s.CPU = map[string]float64{}
	s.Values = map[string]float64{"objects": float64(2 * p.servers), "passes": passes}
	for range passes {
		if err := p.use(s.CPU, -1); err != nil {
			return s, err
		}
		begin := time.Now()
		if err := p.pass(ctx, converge, version); err != nil {
			return s, err
		}
		s.Seconds += time.Since(begin).Seconds()
		if err := errors.Join(pause(ctx, p.lingers), p.use(s.CPU, 1), p.catchUp(ctx)); err != nil {
			return s, err
		}
	}
	s.Counts = p.requests.read().since(before)
	say("  %s", s.line())
	return s, nil
}
