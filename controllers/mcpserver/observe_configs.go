package mcpserver

import (
	"context"

	"k8s.io/utils/lru"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
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
func (r *Reconciler) refer(ctx context.Context, server *v1alpha1.MCPServer, w *world) error {
	if w.authz != nil {
		w.policies = r.policies.of(w.authz)
		w.shared = append(w.shared, shared{WorkloadConfig: named(contract.MCPAuthzConfig.Kind, w.authz.Name, w.policies.Hash)})
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
			return err
		}
		s.admitted = plan.Admits(kinds.Key(server))
	}
	return nil
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

// mostPolicies is how many MCPAuthzConfigs a process keeps as it has read them, and
// mostLarge how many of those above largeSpec, which hold megabytes.
const mostPolicies, mostLarge = 128, 8

// policies keeps what MCPAuthzConfigs say: many servers refer to one, and each of
// their passes would read all of it. Of hashes many more fit.
type policies struct{ read, large, hashes *lru.Cache }

// readAt is what an MCPAuthzConfig says at one generation.
type readAt struct {
	generation int64
	policies   *runspec.SharedPolicies
}

// hashAt is the hash of an MCPAuthzConfig at one generation.
type hashAt struct {
	generation int64
	hash       string
}

func newPolicies() policies {
	return policies{read: lru.New(mostPolicies), large: lru.New(mostLarge), hashes: lru.New(remembered)}
}

// hash names what an MCPAuthzConfig says.
func (p policies) hash(config *v1alpha1.MCPAuthzConfig) string {
	known, _ := p.hashes.Get(config.UID)
	if h, ok := known.(hashAt); ok && h.generation == config.Generation {
		return h.hash
	}
	return p.of(config).Hash
}

func (p policies) of(config *v1alpha1.MCPAuthzConfig) *runspec.SharedPolicies {
	kept, size := p.read, len(config.Spec.Entities)
	for i := range config.Spec.Policies {
		size += len(config.Spec.Policies[i].Policy)
	}
	if size > largeSpec {
		kept = p.large
	}
	known, _ := kept.Get(config.UID)
	if s, ok := known.(readAt); ok && s.generation == config.Generation {
		return s.policies
	}
	read := runspec.ReadPolicies(config)
	kept.Add(config.UID, readAt{config.Generation, &read})
	p.hashes.Add(config.UID, hashAt{config.Generation, read.Hash})
	return &read
}
