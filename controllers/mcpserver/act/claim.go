package act

import (
	"context"
	"crypto/rand"

	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// makeSessionKey makes the Secret with the key of session ids before the claim that records its name, so that what is
// recorded was made. It is never read, its end is no event, and what stands under its name is left as it is: the
// server's uid is in the name, so that it is no earlier server's.
func (x *pass) makeSessionKey(ctx context.Context, a plan.MakeSessionKey) error {
	// 256 bits, as text, so that people can copy it.
	key := rand.Text() + rand.Text()
	_, err := x.Apply(ctx, x.s.Kind.ChildrenManager, nil, workload.SessionSecret(x.owner, a.Name, key))
	return err
}

func (x *pass) writeClaim(ctx context.Context, a plan.WriteClaim) (ends bool, err error) {
	// Before the write, for its answer may be lost.
	x.Reader.Claims.Hold(x.s.Object.GetUID(), x.made.Target)
	done, err := x.Apply(ctx, x.s.Kind.WorkloadManager, x.s.Object, x.claimIntent(), apply.AtVersion)
	if err == nil && !a.Record {
		x.Claimed(x.made.Target.Generation, report.Changes(x.s, x.made))
	}
	// Nothing was left to write where another manager holds the difference: no event comes.
	return a.Record && done.Result != apply.Unchanged, err
}

func (x *pass) claimIntent() runtime.ApplyConfiguration {
	said := x.made.Claim
	claim := v1alpha1ac.WorkloadStatus().WithGeneration(said.Generation).WithHash(said.Hash).
		WithLabels(said.Labels).WithAnnotations(said.Annotations).WithBridgeImages(said.BridgeImages)
	for _, field := range []struct {
		value string
		with  func(string) *v1alpha1ac.WorkloadStatusApplyConfiguration
	}{
		{said.OwnHash, claim.WithOwnHash},
		{said.BackendHash, claim.WithBackendHash},
		{said.BridgeImage, claim.WithBridgeImage},
		{said.SessionSecret, claim.WithSessionSecret},
	} {
		if field.value != "" {
			field.with(field.value)
		}
	}
	if said.Strategy != "" {
		claim.WithStrategy(said.Strategy)
	}
	if said.ConfigRollout {
		claim.WithConfigRollout(true)
	}
	for _, c := range said.Configs {
		config := v1alpha1ac.WorkloadConfig().WithKind(c.Kind).WithName(c.Name).WithHash(c.Hash)
		if c.InTurn {
			config.WithInTurn(true)
		}
		claim.WithConfigs(config)
	}
	return kinds.Status(x.s.Object, v1alpha1ac.ProxyWorkloadStatus().WithWorkload(claim))
}
