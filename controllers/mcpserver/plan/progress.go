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

// Which of Reconciling and Stalled a server shows that is not ready. The time without progress counts from the
// lastTransitionTime of Reconciling, so that it survives a restart of the operator and costs no write.

// retried is by how much the deadline is shorter where waiting seldom helps. A container that ends is not of these: it
// may wait for another service, as a pod does for a Secret.
const retried = 5

// Limit is how long a server may go without progress in a phase: not at all where a person has to write something else.
func Limit(object kinds.Object, phase v1alpha1.WorkloadPhase) time.Duration {
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

// Wait is what a server waits for that is not ready.
type Wait struct {
	Phase v1alpha1.WorkloadPhase
	// Failure is that of a pod, nil where it is none.
	Failure *conditions.Finding
	// RollsOut says that what a rollout waits for has a deadline of its own.
	RollsOut bool
	// Since is when a rollout began to wait for what it waits for now, zero without one: what it waited for before had
	// deadlines of its own.
	Since time.Time
}

// progressed is when something last went on.
func (w Wait) progressed(s *snapshot.Snapshot) time.Time {
	if p := s.Pods.Progressed(); p.After(w.Since) {
		return p
	}
	return w.Since
}

func (w Wait) limit(object kinds.Object) time.Duration {
	if w.Failure != nil && w.Failure.Reason == v1alpha1.ReasonMustRunAsRoot {
		return 0
	}
	return Limit(object, w.Phase)
}

// repeated is since when pods have failed in this way again and again, zero where they have not.
func (w Wait) repeated(s *snapshot.Snapshot) (since time.Time) {
	if w.Failure != nil {
		_, since = s.Complaints.Repeated(w.Failure.Reason)
	}
	return since
}

// forever is for what another server, or a person, has to do first.
const forever = time.Duration(math.MaxInt64)

// Stalls reports whether a server has gone without progress for longer than it may, which is limit.
func (w Wait) Stalls(s *snapshot.Snapshot) (stalls bool, limit time.Duration) {
	if w.RollsOut {
		return false, forever
	}
	if limit = w.limit(s.Object); limit == 0 {
		return true, 0
	}
	if since := w.repeated(s); !since.IsZero() && s.Now.Sub(since) >= limit {
		return true, limit
	}
	stalled, moving := standing(s, s.Last.Stalled, limit), standing(s, s.Last.Reconciling, limit)
	return stalled != nil && !w.progressed(s).After(stalled.LastTransitionTime.Time) ||
		moving != nil && w.patience(s, moving, limit) <= 0, limit
}

// GoesOn reports whether a server already showed Reconciling for as long as it may now: else that begins anew.
func (w Wait) GoesOn(s *snapshot.Snapshot) bool {
	return w.RollsOut || standing(s, s.Last.Reconciling, w.limit(s.Object)) != nil
}

// standing is a condition if it is True, speaks of the present spec, and the phase that was said with it has this
// limit. One that does not is of another wait, and its lastTransitionTime counts for nothing.
func standing(s *snapshot.Snapshot, c *metav1.Condition, limit time.Duration) *metav1.Condition {
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != s.Object.GetGeneration() ||
		Limit(s.Object, s.Last.Phase) != limit {
		return nil
	}
	return c
}

// patience is how long a server that shows Reconciling may still go on without progress. One that takes a configuration
// in its turn, or keeps its place until it serves again, has an end in any case, since others wait: pods that become
// ready again and again are no progress for ever.
func (w Wait) patience(s *snapshot.Snapshot, moving *metav1.Condition, limit time.Duration) time.Duration {
	since := moving.LastTransitionTime.Time
	end := since.Add(mostLimits * limit)
	if p := w.progressed(s); p.After(since) {
		since = p
	}
	if again := w.repeated(s); !again.IsZero() && again.Before(since) {
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

// Deadline is when a server, or one whose pods were evicted, has to be looked at again,
// 0 for never. A timer, because the end of patience is no event, and neither is that of evictions. Where Reconciling
// begins anew, that it is written wakes the next pass.
func (w Wait) Deadline(s *snapshot.Snapshot) time.Duration {
	if again, _ := s.Complaints.Repeated(v1alpha1.ReasonEvicted); again != nil && s.Last.IsReady() {
		return again.Last.Add(complaints.Lull).Sub(s.Now)
	}
	limit := w.limit(s.Object)
	moving := standing(s, s.Last.Reconciling, limit)
	if moving == nil || limit == forever || w.RollsOut {
		return 0
	}
	return max(0, w.patience(s, moving, limit))
}
