package mcpserver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// refer looks at the configurations that a server refers to, and, where it is to
// wait for one, at the other servers that do, and at what it runs with.
// It is not ready while the pass has to wait for its turn at a large one that nobody has
// read yet.
func (r *Reconciler) refer(ctx context.Context, p *pass, w *world) (ready bool, err error) {
	server := p.server
	w.object = p.object
	if w.shared, err = r.Configs.Bind(ctx, r.reader, p.object); err != nil {
		return false, err
	}
	for i := range w.shared {
		config := &w.shared[i]
		if known := config.Object == nil || config.Verdict.Hash != "" || config.Verdict.Err != nil; !known {
			if ready, err := r.readConfig(ctx, p, config); !ready {
				return false, err
			}
		}
	}
	of := rollout.Of(server)
	of.Unfollowed = w.shared.Unfollowed(of.Has)
	for _, config := range w.shared {
		if config.Object == nil {
			continue
		}
		now := named(config.Kind, config.Name, config.Verdict.Hash)
		turn, err := of.Turn(now, func() (rollout.Plan, error) { return r.plan(ctx, server.Namespace, now) })
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
		member, err := r.Configs.Workload(ctx, r.reader, servers[i])
		if err != nil {
			return rollout.Plan{}, err
		}
		members = append(members, member.Member(config.Kind, config.Name, config.Hash))
	}
	return rollout.For(members, r.Percent), nil
}

// readConfigs reads what the configurations contribute that a server refers to, for who renders
// it. It is not ready while the pass has to wait for its turn at a large one.
func (r *Reconciler) readConfigs(ctx context.Context, p *pass, w *world) (ready bool, err error) {
	for i := range w.shared {
		if ready, err := r.readConfig(ctx, p, &w.shared[i]); !ready {
			return false, err
		}
	}
	return true, nil
}

func (r *Reconciler) readConfig(ctx context.Context, p *pass, config *frame.Bound) (ready bool, err error) {
	if config.Object == nil || config.Verdict.Contribution != nil || config.Verdict.Err != nil {
		return true, nil
	}
	verdict, known := r.Configs.Whole(config.Rules, config.Object)
	if !known {
		if reconcile.IsCut(config.Object) {
			if wait := p.turn.Take(r.Now()); wait > 0 {
				p.Due(wait)
				return false, nil
			}
			key, whole := client.ObjectKeyFromObject(config.Object), config.Rules.New()
			if err := r.live.Get(ctx, key, whole); err != nil {
				return false, fmt.Errorf("reading %s %s: %w", config.Kind, key, err)
			}
			config.Object = whole
		}
		verdict = r.Configs.Read(config.Rules, config.Object)
	}
	config.Verdict = verdict
	return true, nil
}
