package mcpserver

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// shared is a configuration that a server refers to, as it is now.
type shared struct {
	v1alpha1.WorkloadConfig
	// phase is how far the server is on its way to it, and admitted says that it may
	// go on.
	phase    rollout.Phase
	admitted bool
}

// refer looks at the configurations that a server refers to, and, where it is to
// wait for one, at the other servers that do.
// It is not ready while the pass has to wait for its turn at a large one that nobody has
// read yet.
func (r *Reconciler) refer(ctx context.Context, p *pass, w *world) (ready bool, err error) {
	server := p.server
	w.remote = remote(p.object)
	if w.authz != nil {
		verdict, known := r.Policies.Policies(w.authz)
		if !known {
			if ready, err := r.readPolicies(ctx, p, w); !ready {
				return false, err
			}
			verdict.Hash = w.policies.Hash
		}
		w.shared = append(w.shared, shared{WorkloadConfig: named(contract.MCPAuthzConfig.Kind, w.authz.Name, verdict.Hash)})
	}
	if w.login != nil {
		w.shared = append(w.shared, shared{WorkloadConfig: named(contract.MCPOIDCConfig.Kind, w.login.Name, runspec.LoginHash(w.login))})
	}
	for i := range w.shared {
		s := &w.shared[i]
		if s.phase = rollout.OfServer(server).Member(s.Kind, s.Name, s.Hash).Phase; s.phase != rollout.Waiting {
			s.admitted = true
			continue
		}
		plan, err := r.plan(ctx, server.Namespace, s.WorkloadConfig)
		if err != nil {
			return false, err
		}
		s.admitted = plan.Admits(kinds.Key(server))
	}
	return true, nil
}

func named(kind, name, hash string) v1alpha1.WorkloadConfig {
	return v1alpha1.WorkloadConfig{Kind: kind, Name: name, Hash: hash}
}

// plan is who may take a configuration now.
func (r *Reconciler) plan(ctx context.Context, namespace string, config v1alpha1.WorkloadConfig) (rollout.Plan, error) {
	servers, err := references.To(ctx, r.reader, config.Kind, namespace, config.Name)
	if err != nil {
		return rollout.Plan{}, err
	}
	members := make([]rollout.Member, 0, len(servers))
	for i := range servers {
		members = append(members, rollout.OfServer(&servers[i]).Member(config.Kind, config.Name, config.Hash))
	}
	return rollout.For(members, r.Percent), nil
}

// readPolicies reads the text of the policies that a server refers to, for who renders it.
// It is not ready while the pass has to wait for its turn at a large one.
func (r *Reconciler) readPolicies(ctx context.Context, p *pass, w *world) (ready bool, err error) {
	if w.authz == nil || w.policies != nil {
		return true, nil
	}
	if text, known := r.Policies.Text(w.authz); known {
		w.policies = text
		return true, nil
	}
	if reconcile.IsCut(w.authz) {
		if wait := p.turn.Take(r.Now()); wait > 0 {
			p.Due(wait)
			return false, nil
		}
		key := client.ObjectKeyFromObject(w.authz)
		if err := reconcile.Live(ctx, r.live, key, w.authz); err != nil {
			return false, fmt.Errorf("reading MCPAuthzConfig %s: %w", key, err)
		}
	}
	w.policies = r.Policies.Read(w.authz)
	return true, nil
}
