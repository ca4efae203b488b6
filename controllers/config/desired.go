package config

import (
	"errors"
	"math"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/policystore"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// mostListed is how many workloads the status lists, as its schema says.
const mostListed = 500

// wanted is what a pass wants a configuration to say.
type wanted struct {
	// held says that its deletion has to wait.
	held bool
	// workloads is how many refer to it, and listed the first of them.
	workloads int32
	listed    []v1alpha1.WorkloadReference
}

// desired is computed from nothing but what was observed, so what no longer refers
// is left out.
func desired(w world) wanted {
	want := wanted{held: len(w.servers) > 0, workloads: int32(min(len(w.servers), math.MaxInt32))}
	for i := range min(len(w.servers), mostListed) {
		want.listed = append(want.listed, v1alpha1.WorkloadReference{Kind: kinds.Of(&w.servers[i]).Object.Kind, Name: w.servers[i].Name})
	}
	return want
}

// status states what the configuration says, and who refers to it.
func (want wanted) status(j judgement) *v1alpha1ac.ConfigStatusApplyConfiguration {
	status := v1alpha1ac.ConfigStatus().WithWorkloads(want.workloads)
	status.Policies = j.policies
	if j.hash != "" {
		status.WithHash(j.hash)
	}
	for _, l := range want.listed {
		status.WithReferencingWorkloads(v1alpha1ac.WorkloadReference().WithKind(l.Kind).WithName(l.Name))
	}
	return status
}

// judgement is what was found about a spec.
type judgement struct {
	// invalid is why nothing can be enforced by it, nil if it can.
	invalid error
	// hash names what it contributes to the content of servers, empty if it is
	// invalid.
	hash string
	// policies is how many it has, nil for a kind that has none.
	policies *int32
	// unmatched are its statements that match no call.
	unmatched []string
}

// judgeLogin looks at an MCPOIDCConfig, of which the schema sees what is wrong unless
// it was stored under another one.
func judgeLogin(c config, store *policystore.Store) judgement {
	hash, ok := loginHash(c, store)
	if !ok {
		return judgement{invalid: errors.New("spec has neither oidc nor kubernetes: write oidc for the tokens of a provider, kubernetes for those of the cluster's service accounts")}
	}
	return judgement{hash: hash}
}

func loginHash(c config, store *policystore.Store) (string, bool) {
	login, ok := c.(*v1alpha1.MCPOIDCConfig)
	if !ok || !reconcile.IsCut(login) && login.Spec.OIDC == nil && login.Spec.Kubernetes == nil {
		return "", false
	}
	return store.Login(login)
}

// judgePolicies reads the policies of an MCPAuthzConfig.
func judgePolicies(c config, store *policystore.Store) judgement {
	policies, ok := c.(*v1alpha1.MCPAuthzConfig)
	if !ok {
		return judgement{}
	}
	j := judgement{policies: new(int32(min(len(policies.Spec.Policies), math.MaxInt32)))}
	verdict, _ := store.Policies(policies)
	if j.invalid = verdict.Err; j.invalid == nil {
		j.hash, j.unmatched = verdict.Hash, verdict.Unmatched
	}
	return j
}

func policiesHash(c config, store *policystore.Store) (string, bool) {
	policies, ok := c.(*v1alpha1.MCPAuthzConfig)
	if !ok {
		return "", false
	}
	verdict, known := store.Policies(policies)
	if verdict.Err != nil {
		return "", known
	}
	return verdict.Hash, known
}
