package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// rollers are who rolls out new content beside what serves: Freehold, and the old ways (rollout_reference.go).
var rollers = []string{"rollout-freehold", "rollout-locked", "rollout-unlocked"}

// rollOut measures how n servers get new content from several reconcilers that know the same old state, and counts
// plans that were overwritten and candidates that were made twice.
func (b *bench) rollOut(ctx context.Context, name string, n int) error {
	return b.on(ctx, name, func(ctx context.Context, w *world, p *subject) error {
		seen, err := w.watchRollouts(ctx)
		if err != nil {
			return err
		}
		server := func(version int) func(string) string {
			return func(name string) string {
				return kit.Server(name, image(version), "rollout: {strategy: Successive, sessionsEnd: 0s}")
			}
		}
		if err := w.apply(ctx, n, server(1)); err != nil {
			return err
		}
		if _, err := w.tracker.await(ctx, n, "servers serve", rolledOut(name, 1)); err != nil {
			return fmt.Errorf("%w\n%s", err, p.lastWords())
		}
		if _, err := p.rest(ctx, w.calm); err != nil {
			return err
		}
		seen.forget()
		step, err := w.measure(ctx, p, Step{Scenario: "rollout", Subject: name, Servers: n},
			func() error { return w.apply(ctx, n, server(2)) },
			question{n, "servers serve the other content", rolledOut(name, 2)})
		if err != nil {
			return err
		}
		if step.Values, err = seen.count(ctx, w); err != nil {
			return err
		}
		b.record(step)
		return nil
	})
}

// rolledOut reports whether a server has had so many contents, and nothing of a rollout is left.
func rolledOut(subject string, contents int64) func(*v1alpha1.MCPServer) bool {
	return func(s *v1alpha1.MCPServer) bool {
		status := s.Status
		if status.Active == nil || status.Rollout != nil {
			return false
		}
		if subject != rollers[0] {
			return status.Active.Hash == hashOf(s.Spec.Image)
		}
		return settled(contents)(s) && status.Active.Generation == contents && status.Workload.Generation == contents
	}
}

// rolloutsSeen is what a watch has shown of the rollouts of each server.
type rolloutsSeen struct {
	mu sync.Mutex
	// plans are ids, and candidates uids of StatefulSets.
	plans, candidates map[string]map[string]bool
}

func (w *world) watchRollouts(ctx context.Context) (*rolloutsSeen, error) {
	seen := &rolloutsSeen{}
	seen.forget()
	all, err := cache.New(w.Config, cache.Options{Scheme: w.Scheme})
	if err != nil {
		return nil, fmt.Errorf("watching rollouts: %w", err)
	}
	see := func(o any) {
		switch o := o.(type) {
		case *v1alpha1.MCPServer:
			if o.Status.Rollout != nil {
				seen.note(seen.plans, o.Name, o.Status.Rollout.ID)
			}
		case *appsv1.StatefulSet:
			if owner := metav1.GetControllerOf(o); owner != nil {
				seen.note(seen.candidates, owner.Name, string(o.UID))
			}
		}
	}
	for _, kind := range []client.Object{&v1alpha1.MCPServer{}, &appsv1.StatefulSet{}} {
		informer, err := all.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching rollouts: %w", err)
		}
		handler := toolscache.ResourceEventHandlerFuncs{AddFunc: see}
		if _, is := kind.(*v1alpha1.MCPServer); is {
			handler.UpdateFunc = func(_, o any) { see(o) }
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watching rollouts: %w", err)
		}
	}
	go func() { _ = all.Start(ctx) }() // it ends with ctx
	if !all.WaitForCacheSync(ctx) {
		return nil, errors.New("watching rollouts: the cache does not fill")
	}
	return seen, nil
}

func (s *rolloutsSeen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plans == nil {
		s.plans, s.candidates = map[string]map[string]bool{}, map[string]map[string]bool{}
	}
	clear(s.plans)
	clear(s.candidates)
}

func (s *rolloutsSeen) note(in map[string]map[string]bool, server, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in[server] == nil {
		in[server] = map[string]bool{}
	}
	in[server][id] = true
}

// rollouts is what was lost and made twice in the rollouts of each roller.
func (r *Report) rollouts(text *strings.Builder) {
	table(text,
		"rollout\tservers\trequests\twrites\tof them to the status\t409\tlost plans\tduplicate candidates\tleft over\t",
		r.steps("rollout"), func(s Step) string {
			return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t", strings.TrimPrefix(s.Subject, "rollout-"),
				s.Servers, s.Counts.sum().Requests, s.Counts.writes().sum().Requests,
				s.statusWrites(), s.Counts.sum().Conflicts, s.Values["lost plans"], s.Values["duplicate candidates"],
				s.Values["left over"])
		})
}

// count returns what there was more than one of for each server, and what is left over.
func (s *rolloutsSeen) count(ctx context.Context, w *world) (map[string]float64, error) {
	left := &appsv1.StatefulSetList{}
	if err := w.Client.List(ctx, left, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing what is left: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	more := func(of map[string]map[string]bool) float64 {
		total := 0
		for _, ids := range of {
			total += len(ids) - 1
		}
		return float64(total)
	}
	return map[string]float64{
		"lost plans": more(s.plans), "duplicate candidates": more(s.candidates),
		"left over": float64(len(left.Items) - len(s.candidates)),
	}, nil
}
