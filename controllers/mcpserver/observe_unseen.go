package mcpserver

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// observe reads the world. What a cache does not show of a server that stops is read live: it
// holds what has our label, and somebody may have taken that off. What still runs must
// not be taken for gone.
func (r *Reconciler) observe(ctx context.Context, p *pass) (world, error) {
	server := p.server
	w, err := observe(ctx, r.reader, r.live, server)
	w.complaints, w.now = r.Complaints.Of(server.Namespace, kinds.Key(server)), r.Now()
	lost := kinds.Of(server).Backend && w.backend == nil && backendReplicas(server) == 0 && server.Status.URL != ""
	if err != nil || server.DeletionTimestamp == nil && !lost {
		return w, err
	}
	key := kinds.Key(server)
	proxy, err := unseen(ctx, r.live, server, workload.ProxyName(key), w.proxy)
	backend, policy := w.backend, w.policy
	if kinds.Of(server).Backend && err == nil {
		backend, err = unseen(ctx, r.live, server, workload.BackendName(key), w.backend)
	}
	if kinds.Of(server).Backend && err == nil {
		policy, err = unseen(ctx, r.live, server, workload.BackendName(key), w.policy)
	}
	if err != nil {
		return world{}, err
	}
	if proxy != w.proxy || backend != w.backend || policy != w.policy {
		p.Due(stopRetry) // their end is no event
	}
	w.ownBackend, w.ownPolicy = w.ownBackend || backend != w.backend, w.ownPolicy || policy != w.policy
	w.proxy, w.backend, w.policy = proxy, backend, policy
	return w, nil
}

// unseen is a child of the server that the cache does not show, or what it shows.
func unseen[T any, O interface {
	*T
	client.Object
}](ctx context.Context, live client.Reader, server *v1alpha1.MCPServer, name string, seen O) (O, error) {
	if seen != nil {
		return seen, nil
	}
	obj := O(new(T))
	switch err := live.Get(ctx, client.ObjectKey{Namespace: server.Namespace, Name: name}, obj); {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading %T %s/%s: %w", obj, server.Namespace, name, err)
	case err != nil, !metav1.IsControlledBy(obj, server):
		return nil, nil //nolint:nilerr // there is none, or another's
	}
	return obj, nil
}
