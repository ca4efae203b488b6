package snapshot

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// Configs are the configurations that a server refers to.
type Configs struct {
	// Refs are the references, each with what is known of its configuration, perhaps without what that contributes,
	// which Contents reads: it may be large.
	Refs frame.Set
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

// Contents is the snapshot with all that configurations contribute, for who renders that. What a cache holds in part is
// read live, unless it is remembered. The configuration is then the one that was read, which may be newer than the
// cache's: what is decided by it is decided by what is rendered. An error may be that the pass has to wait for the
// slot of large objects.
func (r *Reader) Contents(ctx context.Context, s *Snapshot, slot *reconcile.LargeSlot) (*Snapshot, error) {
	refs, whole := slices.Clone(s.Configs.Refs), *s
	for i := range refs {
		if err := r.complete(ctx, &refs[i], slot, s.Now); err != nil {
			return nil, err
		}
	}
	var err error
	whole.Configs, err = r.configs(ctx, s, refs)
	return &whole, err
}

// configs looks at the configurations that a server refers to, and, where it is to wait for one, at the other servers
// that do, and at what it runs with.
func (r *Reader) configs(ctx context.Context, s *Snapshot, refs frame.Set) (c Configs, err error) {
	c.Refs = refs
	of := rollout.Of(s.Object)
	of.Unfollowed = refs.Unfollowed(of.Has)
	for _, config := range refs {
		if config.Object == nil {
			continue
		}
		now := v1alpha1.WorkloadConfig{Kind: config.Kind, Name: config.Name, Hash: config.Verdict.Hash}
		plan := func() (rollout.Plan, error) { return r.Plan(ctx, s.Object.GetNamespace(), now) }
		turn, err := of.Turn(now, plan)
		if err != nil {
			return c, err
		}
		c.Turns = append(c.Turns, turn)
	}
	if c.Waits() != nil {
		c.Ran, err = r.runs(ctx, s)
	}
	return c, err
}

// missingGroup is the name of the MCPGroup in the spec, if there is none.
func (r *Reader) missingGroup(ctx context.Context, object kinds.Object) (string, error) {
	group := object.GetProxySpec().GroupRef
	if group == nil {
		return "", nil
	}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: group.Name}
	switch err := r.Cache.Get(ctx, key, &v1alpha1.MCPGroup{}, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return group.Name, nil
	case err != nil:
		return "", fmt.Errorf("reading MCPGroup %s: %w", key, err)
	}
	return "", nil
}

// runs is the run config of the proxy that stands, nil if nobody has it any more. The
// cache has those that are objects without their data.
func (r *Reader) runs(ctx context.Context, s *Snapshot) (*runconfig.RunConfig, error) {
	proxy := s.Proxy()
	if !proxy.Exists() {
		return nil, nil
	}
	text := podtemplate.Carried(&proxy.Live.Spec.Template)
	if config := s.RunConfig(proxy.Revision); text == "" && config != nil {
		object := &corev1.ConfigMap{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(config), object); err != nil {
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

func (r *Reader) complete(ctx context.Context, config *frame.Bound, slot *reconcile.LargeSlot, now time.Time) error {
	if config.Whole() {
		return nil
	}
	if verdict, known := r.Configs.Whole(config.Rules, config.Object); known {
		config.Verdict = verdict
		return nil
	}
	if reconcile.IsCut(config.Object) {
		if wait := slot.Take(now); wait > 0 {
			return waits(wait)
		}
		key, live := client.ObjectKeyFromObject(config.Object), config.Rules.New()
		switch err := r.Live.Get(ctx, key, live); {
		case apierrors.IsNotFound(err): // the event of that is on its way
			config.Object, config.Verdict = nil, frame.Verdict{}
			return nil
		case err != nil:
			return fmt.Errorf("reading %s %s: %w", config.Kind, key, err)
		}
		config.Object = live
	}
	config.Verdict = r.Configs.Read(config.Rules, config.Object)
	return nil
}

// waits ends a pass that waits for the slot of large objects.
type waits time.Duration

func (w waits) Error() string             { return "other large objects are read first" }
func (w waits) RetryAfter() time.Duration { return time.Duration(w) }
