package mcpserver

import (
	"context"
	"errors"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// turns wakes the servers whose turn it is to take a changed configuration, and no
// others, when one that refers to it has moved.
func (r *Reconciler) turns() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { r.moved(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { r.moved(ctx, q, e.Object, nil) },
	}
}

// moved looks at what a server was before, and is after; nil for one that is gone.
func (r *Reconciler) moved(ctx context.Context, q queue, before, after client.Object) {
	if alike(before, after) {
		return
	}
	for _, kind := range []string{contract.MCPAuthzConfig.Kind, contract.MCPOIDCConfig.Kind} {
		name := references.From(before, kind)
		if name == "" {
			continue
		}
		config, err := r.config(ctx, kind, before.GetNamespace(), name)
		if err != nil || phase(before, config) == phase(after, config) {
			continue // one that is not there, or was not read, is taken by nobody
		}
		plan, err := r.plan(ctx, before.GetNamespace(), config)
		if err != nil {
			logf.FromContext(ctx).Error(err, "cannot tell which server takes a configuration next", "namespace", before.GetNamespace(), "config", name)
			continue
		}
		for _, next := range plan.Admitted {
			if kind, name := kinds.OfKey(next); kind.Suffix == r.kind.Suffix {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: before.GetNamespace(), Name: name}})
			}
		}
	}
}

// alike reports whether nothing changed of what a phase is read from, as with most
// events.
func alike(before, after client.Object) bool {
	b, a := kinds.Form(before), kinds.Form(after)
	return b != nil && a != nil && references.From(b, contract.MCPAuthzConfig.Kind) == references.From(a, contract.MCPAuthzConfig.Kind) &&
		references.From(b, contract.MCPOIDCConfig.Kind) == references.From(a, contract.MCPOIDCConfig.Kind) &&
		apiequality.Semantic.DeepEqual(rollout.OfServer(b), rollout.OfServer(a))
}

// phase is how far a server is that refers to a configuration, -1 for one that does
// not.
func phase(obj client.Object, config v1alpha1.WorkloadConfig) rollout.Phase {
	server := kinds.Form(obj)
	if server == nil || references.From(server, config.Kind) != config.Name {
		return -1
	}
	return rollout.OfServer(server).Member(config.Kind, config.Name, config.Hash).Phase
}

// errUnread says that a configuration is large, and that nobody has read it yet: a pass over
// a server that refers to it does.
var errUnread = errors.New("the configuration is not read yet")

// config is a configuration as a claim would record it now.
func (r *Reconciler) config(ctx context.Context, kind, namespace, name string) (v1alpha1.WorkloadConfig, error) {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if kind == contract.MCPAuthzConfig.Kind {
		c := &v1alpha1.MCPAuthzConfig{}
		if err := r.reader.Get(ctx, key, c, client.UnsafeDisableDeepCopy); err != nil {
			return v1alpha1.WorkloadConfig{}, err
		}
		verdict, known := r.Policies.Policies(c)
		if !known {
			return v1alpha1.WorkloadConfig{}, errUnread
		}
		return named(kind, name, verdict.Hash), nil
	}
	c := &v1alpha1.MCPOIDCConfig{}
	if err := r.reader.Get(ctx, key, c, client.UnsafeDisableDeepCopy); err != nil {
		return v1alpha1.WorkloadConfig{}, err
	}
	hash, known := r.Policies.Login(c)
	if !known {
		return v1alpha1.WorkloadConfig{}, errUnread
	}
	return named(kind, name, hash), nil
}
