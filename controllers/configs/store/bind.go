package store

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// Bind is what a workload refers to, with what is known of it. The objects are the cache's own.
func (s *Store) Bind(ctx context.Context, cache client.Reader, workload kinds.Object) (frame.Set, error) {
	set := registry.Bind(workload, nil)
	for i := range set {
		b, config := &set[i], set[i].Rules.New()
		key := client.ObjectKey{Namespace: workload.GetNamespace(), Name: b.Name}
		if err := cache.Get(ctx, key, config, client.UnsafeDisableDeepCopy); err == nil {
			b.Object = config
			b.Verdict, _ = s.Verdict(b.Rules, config)
		} else if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading %s %s: %w", b.Kind, key, err)
		}
	}
	return set, nil
}

// Workload is an object as one that takes configurations.
func (s *Store) Workload(ctx context.Context, cache client.Reader, object kinds.Object) (rollout.Workload, error) {
	w := rollout.Of(object)
	if !w.CouldNotFollow() {
		return w, nil
	}
	set, err := s.Bind(ctx, cache, object)
	w.Unfollowed = set.Unfollowed(w.Has)
	return w, err
}
