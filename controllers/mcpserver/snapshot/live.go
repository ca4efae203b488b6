package snapshot

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// Anew reads a server again, with what a rollout is decided by from the API server: a cache may show a pod that is
// ready, or one that fails, for longer than it is. An error may be that the server is not the one that was read any
// more.
func (r *Reader) Anew(ctx context.Context, s *Snapshot, slot *reconcile.LargeSlot) (*Snapshot, error) {
	now := r.Kind.New()
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.Object), now); {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading %s %s: %w", r.Kind.Object.Kind, client.ObjectKeyFromObject(s.Object), err)
	case err != nil, now.GetUID() != s.Object.GetUID(), now.GetResourceVersion() != s.Object.GetResourceVersion():
		return nil, behind{}
	}
	anew := *r
	anew.Cache, anew.decides = decisive{r.Cache, r.Live}, true
	return anew.Read(ctx, s.Object, s.Now, slot)
}

// behind ends a pass over a server that has moved since it was read. Its event is on the way.
type behind struct{}

func (behind) Error() string             { return "the cache does not show the server as it is" }
func (behind) RetryAfter() time.Duration { return time.Second }

// decisive reads live what of a server's children a rollout is decided by, and all else from a cache.
type decisive struct {
	client.Reader
	live client.Reader
}

func (d decisive) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch obj.(type) {
	case *appsv1.StatefulSet, *appsv1.Deployment:
		return d.live.Get(ctx, key, obj, opts...)
	}
	return d.Reader.Get(ctx, key, obj, opts...)
}

func (d decisive) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, are := list.(*corev1.PodList); are {
		return d.live.List(ctx, list, opts...)
	}
	return d.Reader.List(ctx, list, opts...)
}
