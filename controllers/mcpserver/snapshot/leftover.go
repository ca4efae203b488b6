package snapshot

import (
	"context"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Leftover is the NetworkPolicy of an earlier server of this name, which is gone, where there is none now: somebody
// removed its finalizer, and the garbage collector is refused the policy. It is nil where there is none, and while
// pods of the backend run, whose end wakes the next pass.
func (r *Reader) Leftover(ctx context.Context, server client.ObjectKey) (*networkingv1.NetworkPolicy, error) {
	if !r.Kind.Backend {
		return nil, nil
	}
	policy := &networkingv1.NetworkPolicy{}
	key := client.ObjectKey{Namespace: server.Namespace, Name: workload.BackendName(server.Name)}
	switch err := reconcile.Whole(ctx, r.Cache, r.Live, key, policy); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading NetworkPolicy %s: %w", key, err)
	}
	return r.leftover(ctx, server, "", policy)
}

// leftover is policy if it is of an earlier server of this name. uid is that of the server that is there now, by
// the cache, empty if there is none.
func (r *Reader) leftover(
	ctx context.Context, server client.ObjectKey, uid types.UID, policy *networkingv1.NetworkPolicy,
) (*networkingv1.NetworkPolicy, error) {
	if policy == nil || policy.DeletionTimestamp != nil {
		return nil, nil
	}
	owner := metav1.GetControllerOf(policy)
	if owner == nil || owner.UID == uid || owner.Kind != r.Kind.Object.Kind || owner.Name != server.Name ||
		!strings.HasPrefix(owner.APIVersion, v1alpha1.SchemeGroupVersion.Group+"/") {
		return nil, nil
	}
	now := r.Kind.New()
	switch err := r.Live.Get(ctx, server, now); { // the cache may be behind
	case err == nil && now.GetUID() == owner.UID:
		return nil, nil
	case err == nil:
		return policy, nil // its own policy, if it has one, is about the same pods
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading %s %s: %w", owner.Kind, server, err)
	}
	pods, err := r.pods(ctx, server.Namespace, r.Kind.Key(server.Name))
	if err != nil || podsOf(pods).Running(workload.ComponentBackend) > 0 {
		return nil, err
	}
	return policy, nil
}
