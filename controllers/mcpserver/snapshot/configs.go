package snapshot

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Configs are the configurations that a server refers to.
type Configs struct {
	// Refs are the references, each with what is known of its configuration, perhaps without what that contributes:
	// it may be large. Whole are the same with that.
	Refs  frame.Set
	Whole func() (frame.Set, error)
	// Turns are how far the server is with each that there is.
	Turns []rollout.Turn
	// Ran is the run config of the proxy that stands, where the server is to wait for one of them; nil if nobody
	// has it any more.
	Ran *runconfig.RunConfig
}

// Waits is the first configuration whose turn it is not, nil if there is none.
func (c Configs) Waits() *v1alpha1.WorkloadConfig {
	i := slices.IndexFunc(c.Turns, func(t rollout.Turn) bool { return !t.Admitted })
	if i < 0 {
		return nil
	}
	return &c.Turns[i].WorkloadConfig
}

// configs looks at the configurations that a server refers to, and, where it is to wait for one, at the other servers
// that do, and at what it runs with. What they contribute is read by who renders it.
func (r *Reader) configs(ctx context.Context, object kinds.Object, o *Objects, whole whole) (err error) {
	if o.Configs.Refs, err = r.Configs.Bind(ctx, r.Cache, object); err != nil {
		return err
	}
	refs := o.Configs.Refs
	o.Configs.Whole = func() (frame.Set, error) {
		set := slices.Clone(refs)
		for i := range set {
			if err := whole.read(ctx, &set[i]); err != nil {
				return nil, err
			}
		}
		return set, nil
	}
	for i := range refs {
		config := &refs[i]
		if known := config.Object == nil || config.Verdict.Hash != "" || config.Verdict.Err != nil; !known {
			if err := whole.read(ctx, config); err != nil {
				return err
			}
		}
	}
	of := rollout.Of(object)
	of.Unfollowed = refs.Unfollowed(of.Has)
	for _, config := range refs {
		if config.Object == nil {
			continue
		}
		now := v1alpha1.WorkloadConfig{Kind: config.Kind, Name: config.Name, Hash: config.Verdict.Hash}
		turn, err := of.Turn(now, func() (rollout.Plan, error) { return r.Plan(ctx, object.GetNamespace(), now) })
		if err != nil {
			return err
		}
		o.Configs.Turns = append(o.Configs.Turns, turn)
	}
	if o.Configs.Waits() != nil {
		o.Configs.Ran, err = r.runs(ctx, object, o)
	}
	return err
}

// runs is the run config of the proxy that stands, nil if nobody has it any more. The
// cache has those that are objects without their data.
func (r *Reader) runs(ctx context.Context, server kinds.Object, o *Objects) (*runconfig.RunConfig, error) {
	if o.Proxy == nil {
		return nil, nil
	}
	text := o.Proxy.Spec.Template.Annotations[podtemplate.AnnotationRunConfig]
	name := workload.RunConfigName(kinds.Key(server), proxyOf(server, o.Proxy).Revision)
	if text == "" && slices.ContainsFunc(o.RunConfigs,
		func(c metav1.PartialObjectMetadata) bool { return c.Name == name }) {
		object := &corev1.ConfigMap{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: server.GetNamespace(), Name: name}, object); err != nil {
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

// Plan is who may take a configuration now.
func (r *Reader) Plan(ctx context.Context, namespace string, config v1alpha1.WorkloadConfig) (rollout.Plan, error) {
	servers, err := references.To(ctx, r.Cache, config.Kind, namespace, config.Name)
	if err != nil {
		return rollout.Plan{}, err
	}
	members := make([]rollout.Member, 0, len(servers))
	for i := range servers {
		member, err := r.Configs.Workload(ctx, r.Cache, servers[i])
		if err != nil {
			return rollout.Plan{}, err
		}
		members = append(members, member.Member(config.Kind, config.Name, config.Hash))
	}
	return rollout.For(members, r.Percent), nil
}

// whole reads what configurations contribute.
type whole struct {
	*Reader
	turn *reconcile.Holder
	now  time.Time
}

// read reads what a configuration contributes. An error may be that the pass has to wait for its turn at a large one.
func (r whole) read(ctx context.Context, config *frame.Bound) error {
	if config.Object == nil || config.Verdict.Contribution != nil || config.Verdict.Err != nil {
		return nil //nolint:nilerr // its verdict is that error
	}
	verdict, known := r.Configs.Whole(config.Rules, config.Object)
	if !known {
		if reconcile.IsCut(config.Object) {
			if wait := r.turn.Take(r.now); wait > 0 {
				return waits(wait)
			}
			key, live := client.ObjectKeyFromObject(config.Object), config.Rules.New()
			if err := r.Live.Get(ctx, key, live); err != nil {
				return fmt.Errorf("reading %s %s: %w", config.Kind, key, err)
			}
			config.Object = live
		}
		verdict = r.Configs.Read(config.Rules, config.Object)
	}
	config.Verdict = verdict
	return nil
}

// waits ends a pass that waits for its turn.
type waits time.Duration

func (w waits) Error() string             { return "other large objects are read first" }
func (w waits) RetryAfter() time.Duration { return time.Duration(w) }
