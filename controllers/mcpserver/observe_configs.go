package mcpserver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// refer looks at the configurations that a server refers to, and, where it is to
// wait for one, at the other servers that do, and at what it runs with.
// It is not ready while the pass has to wait for its turn at a large one that nobody has
// read yet.
func (r *Reconciler) refer(ctx context.Context, p *pass, w *world) (ready bool, err error) {
	server := p.server
	w.remote = remote(p.object)
	var configs []v1alpha1.WorkloadConfig
	if w.authz != nil {
		verdict, known := r.Policies.Policies(w.authz)
		if !known {
			if ready, err := r.readPolicies(ctx, p, w); !ready {
				return false, err
			}
			verdict.Hash = w.policies.Hash
		}
		configs = append(configs, named(contract.MCPAuthzConfig.Kind, w.authz.Name, verdict.Hash))
	}
	if w.login != nil {
		configs = append(configs, named(contract.MCPOIDCConfig.Kind, w.login.Name, runspec.LoginHash(w.login)))
	}
	for _, config := range configs {
		turn, err := rollout.OfServer(server).Turn(config, func() (rollout.Plan, error) { return r.plan(ctx, server.Namespace, config) })
		if err != nil {
			return false, err
		}
		w.turns = append(w.turns, turn)
	}
	if w.waits() != nil {
		if w.ran, err = r.runs(ctx, server, w); err != nil {
			return false, err
		}
	}
	return true, nil
}

// waits is the first configuration whose turn it is not, nil if there is none.
func (w *world) waits() *v1alpha1.WorkloadConfig {
	for i := range w.turns {
		if !w.turns[i].Admitted {
			return &w.turns[i].WorkloadConfig
		}
	}
	return nil
}

// runs is the run config of the proxy that stands, nil if nobody has it any more. The
// cache has those that are objects without their data.
func (r *Reconciler) runs(ctx context.Context, server *v1alpha1.MCPServer, w *world) (*runconfig.RunConfig, error) {
	if w.proxy == nil {
		return nil, nil
	}
	text := w.proxy.Spec.Template.Annotations[podtemplate.AnnotationRunConfig]
	if name := workload.RunConfigName(kinds.Key(server), revisionOf(w.proxy)); text == "" && w.config(name) != nil {
		object := &corev1.ConfigMap{}
		if err := r.live.Get(ctx, client.ObjectKey{Namespace: server.Namespace, Name: name}, object); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		text = object.Data[runconfig.FileName]
	}
	if text == "" {
		return nil, nil
	}
	run, err := runconfig.Decode([]byte(text))
	if err != nil {
		// Another release wrote it: there is something to go on with, and no telling what.
		return &runconfig.RunConfig{}, nil //nolint:nilerr // as said above
	}
	return &run, nil
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
