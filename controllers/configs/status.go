package configs

import (
	"context"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// count states what the configuration says, and who refers to it.
func (r *Reconciler) count(
	ctx context.Context, p *reconcile.Pass, config frame.Object, verdict frame.Verdict, workloads []kinds.Object,
) error {
	_, err := p.Apply(ctx, r.row.StatusManager, config,
		r.kind.Intent(config.GetName(), config.GetNamespace(), desired(verdict, workloads), workloads))
	return err
}

// findings are the answers to all questions, by condition type. members are the
// servers that take what the configuration says.
func findings(
	kind frame.Kind, verdict frame.Verdict, members []rollout.Member, percent int, conflicts []*apply.Conflict,
) map[string]conditions.Finding {
	answer := valid(verdict)
	found := map[string]conditions.Finding{v1alpha1.ConditionReady: answer}
	if verdict.Err != nil {
		found[v1alpha1.ConditionStalled] = conditions.True(answer.Reason, answer.Message) // only a person can change it
	} else if _, rollsOut := kind.(frame.Content); rollsOut {
		found[v1alpha1.ConditionRolledOut] = rollout.RolledOut(members, percent)
	}
	if len(verdict.Unmatched) > 0 {
		found[v1alpha1.ConditionPolicyUnmatched] = conditions.PolicyUnmatched(verdict.Unmatched)
	}
	if len(conflicts) > 0 {
		found[v1alpha1.ConditionFieldConflict] = conditions.FieldConflict(conflicts)
	}
	return found
}

func valid(verdict frame.Verdict) conditions.Finding {
	if verdict.Err != nil {
		return conditions.False(v1alpha1.ReasonSpecInvalid, verdict.Err.Error())
	}
	return conditions.True(v1alpha1.ReasonValid, "the spec is valid")
}

// members are the servers that run with something, by how far they are with what the
// configuration says now. A new one starts with that.
func (r *Reconciler) members(ctx context.Context, name, hash string, servers []kinds.Object) ([]rollout.Member, error) {
	var members []rollout.Member
	if _, rollsOut := r.kind.(frame.Content); !rollsOut {
		return nil, nil
	}
	for i := range servers {
		m, ok, err := r.member(ctx, name, hash, servers[i])
		if err != nil {
			return nil, err
		}
		if ok {
			members = append(members, m)
		}
	}
	return members, nil
}

func (r *Reconciler) member(
	ctx context.Context, name, hash string, server kinds.Object,
) (m rollout.Member, ok bool, err error) {
	w, err := r.Store.Workload(ctx, r.reader, server)
	return w.Member(r.row.Object.Kind, name, hash), w.Claim != nil, err
}
