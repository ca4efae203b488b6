package plan

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/complaints"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// Which of Reconciling and Stalled a server shows that is not ready. The time
// without progress counts from the lastTransitionTime of Reconciling, so that it
// survives a restart of the operator and costs no write.

// retried is by how much the deadline is shorter where waiting seldom helps. A
// container that ends is not of these: it may wait for another service, as a pod
// does for a Secret.
const retried = 5

// Limit is how long a server may go without progress for a reason: not at all
// where a person has to write something else.
func Limit(object kinds.Object, reason string) time.Duration {
	if reason == v1alpha1.ReasonMustRunAsRoot {
		return 0
	}
	return limitOf(object, conditions.PhaseOf(conditions.False(reason, "")))
}

func limitOf(object kinds.Object, phase v1alpha1.WorkloadPhase) time.Duration {
	seconds := ptr.Deref(object.GetProxySpec().ProgressDeadlineSeconds, int32(reconcile.ProgressDeadline/time.Second))
	whole := time.Duration(seconds) * time.Second
	switch phase {
	case v1alpha1.PhaseBlocked, v1alpha1.PhaseUnresolved:
		return 0
	case v1alpha1.PhaseFaulty:
		return whole / retried
	case v1alpha1.PhasePending:
		return forever
	case v1alpha1.PhaseStarting, v1alpha1.PhaseUpdating, v1alpha1.PhaseServing, v1alpha1.PhaseUnavailable,
		v1alpha1.PhaseFailing, v1alpha1.PhaseRefused, v1alpha1.PhaseStopping, v1alpha1.PhaseStopped:
	}
	return whole
}

// forever is for what another server, or a person, has to do first.
const forever = time.Duration(math.MaxInt64)

// Stalls reports whether a server that is not ready for a reason has gone without progress for longer than it may,
// which is limit.
func Stalls(s *snapshot.Snapshot, reason string) (stalls bool, limit time.Duration) {
	if limit = Limit(s.Object, reason); limit == 0 {
		return true, 0
	}
	if _, since := s.Complaints.Repeated(reason); !since.IsZero() && s.Now.Sub(since) >= limit {
		return true, limit
	}
	stalled, moving := standing(s, s.Last.Stalled, limit), standing(s, s.Last.Reconciling, limit)
	return stalled != nil && !s.Pods.Progressed().After(stalled.LastTransitionTime.Time) ||
		moving != nil && patience(s, moving, limit, reason) <= 0, limit
}

// Waits reports whether a server already showed Reconciling for as long as it may for this reason: else that begins
// anew.
func Waits(s *snapshot.Snapshot, reason string) bool {
	return standing(s, s.Last.Reconciling, Limit(s.Object, reason)) != nil
}

// standing is a condition if it is True, speaks of the present
// spec, and the phase that was said with it has this limit. One that does not is of another wait,
// and its lastTransitionTime counts for nothing.
func standing(s *snapshot.Snapshot, c *metav1.Condition, limit time.Duration) *metav1.Condition {
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != s.Object.GetGeneration() ||
		limitOf(s.Object, s.Last.Phase) != limit {
		return nil
	}
	return c
}

// patience is how long a server that shows Reconciling may still go on without progress. One that takes a configuration
// in its turn, or keeps its place until it serves again, has an end in any case, since others wait: pods that become
// ready again and again are no progress for ever.
func patience(
	s *snapshot.Snapshot, moving *metav1.Condition, limit time.Duration, reason string,
) time.Duration {
	since := moving.LastTransitionTime.Time
	end := since.Add(mostLimits * limit)
	if p := s.Pods.Progressed(); p.After(since) {
		since = p
	}
	if _, again := s.Complaints.Repeated(reason); !again.IsZero() && again.Before(since) {
		since = again
	}
	until := since.Add(limit)
	if (rollout.InTurn(s.Last.Claim) || s.Configs.Waits() != nil) && until.After(end) {
		until = end
	}
	return until.Sub(s.Now)
}

// mostLimits is for how many times its limit a server may take a configuration.
const mostLimits = 3

// Deadline is when a server that is not ready for a reason, or one whose pods were evicted, has to be looked at again,
// 0 for never. A timer, because the end of patience is no event, and neither is that of evictions. Where Reconciling
// begins anew, that it is written wakes the next pass.
func Deadline(s *snapshot.Snapshot, reason string) time.Duration {
	if again, _ := s.Complaints.Repeated(v1alpha1.ReasonEvicted); again != nil && s.Last.IsReady() {
		return again.Last.Add(complaints.Lull).Sub(s.Now)
	}
	limit := Limit(s.Object, reason)
	moving := standing(s, s.Last.Reconciling, limit)
	if moving == nil || limit == forever {
		return 0
	}
	return max(0, patience(s, moving, limit, reason))
}
