package mcpserver

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/complaints"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Which of Reconciling and Stalled a server shows that is not ready. The time
// without progress counts from the lastTransitionTime of Reconciling, so that it
// survives a restart of the operator and costs no write.

// retried is by how much the deadline is shorter where waiting seldom helps. A
// container that ends is not of these: it may wait for another service, as a pod
// does for a Secret.
const retried = 5

// patience is how long a server may go without progress for a reason: not at all
// where a person has to write something else.
func patience(server *v1alpha1.MCPServer, reason string) time.Duration {
	whole := time.Duration(ptr.Deref(server.Spec.ProgressDeadlineSeconds, int32(reconcile.ProgressDeadline/time.Second))) * time.Second
	switch reason {
	case v1alpha1.ReasonSpecInvalid, v1alpha1.ReasonConfigNotFound, v1alpha1.ReasonConfigDeleting, v1alpha1.ReasonConfigInvalid,
		v1alpha1.ReasonNameTaken, v1alpha1.ReasonNotAdoptable, v1alpha1.ReasonUnclaimedGeneration,
		v1alpha1.ReasonNotEnforced, v1alpha1.ReasonMustRunAsRoot:
		return 0
	case v1alpha1.ReasonImagePull, v1alpha1.ReasonNotMCP, v1alpha1.ReasonBackendBlocked, v1alpha1.ReasonPaused,
		v1alpha1.ReasonAddressNotAllowed, v1alpha1.ReasonNotTrusted, v1alpha1.ReasonCredentialsRefused:
		return whole / retried
	case v1alpha1.ReasonRolloutPending:
		return forever
	}
	return whole
}

// forever is for what another server, or a person, has to do first.
const forever = time.Duration(math.MaxInt64)

// movement is the condition that a server shows which is not ready: Reconciling,
// or Stalled once it went without progress for too long.
func movement(server *v1alpha1.MCPServer, w world, answer conditions.Finding, now time.Time) (string, conditions.Finding) {
	limit, f := patience(server, answer.Reason), conditions.True(answer.Reason, answer.Message)
	if limit == 0 {
		return v1alpha1.ConditionStalled, f
	}
	if _, since := w.repeats(answer.Reason); !since.IsZero() && now.Sub(since) >= limit {
		f.Message = noProgress(limit, answer.Message)
		return v1alpha1.ConditionStalled, f
	}
	stalled, moving := standing(server, v1alpha1.ConditionStalled, limit), standing(server, v1alpha1.ConditionReconciling, limit)
	if (stalled != nil && !w.progressed().After(stalled.LastTransitionTime.Time)) || (moving != nil && w.left(server, moving, limit, now) <= 0) {
		f.Message = noProgress(limit, answer.Message)
		return v1alpha1.ConditionStalled, f
	}
	return v1alpha1.ConditionReconciling, f
}

func noProgress(limit time.Duration, message string) string {
	return fmt.Sprintf("no progress for %s: %s", limit, message)
}

// evicts is Stalled of a server that is ready, and whose pods kubelet has evicted one after another
// for longer than it may go without progress; nil for any other. Sessions and calls
// end each time.
func evicts(server *v1alpha1.MCPServer, w world, now time.Time) *conditions.Finding {
	again, since := w.repeats(v1alpha1.ReasonEvicted)
	limit := patience(server, v1alpha1.ReasonEvicted)
	if again == nil || now.Sub(since) < limit {
		return nil
	}
	cures := conditions.OfBackend
	if again.Component == workload.ComponentProxy {
		cures = conditions.OfProxy
	}
	f := again.Ended(cures)
	return new(conditions.True(f.Reason, noProgress(limit, f.Message)))
}

// standing is the condition of this type, if it is True, speaks of the present
// spec, and its reason has this patience. One that does not is of another wait,
// and its lastTransitionTime counts for nothing.
func standing(server *v1alpha1.MCPServer, conditionType string, limit time.Duration) *metav1.Condition {
	c := meta.FindStatusCondition(server.Status.Conditions, conditionType)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != server.Generation || patience(server, c.Reason) != limit {
		return nil
	}
	return c
}

// left is how long a server that shows Reconciling may still go on without
// progress. One that takes a configuration in its turn, or keeps its place until it
// serves again, has an end in any case, since others wait: pods that become ready again and again are no progress for ever.
func (w *world) left(server *v1alpha1.MCPServer, moving *metav1.Condition, limit time.Duration, now time.Time) time.Duration {
	since := moving.LastTransitionTime.Time
	end := since.Add(turns * limit)
	if p := w.progressed(); p.After(since) {
		since = p
	}
	if _, again := w.repeats(moving.Reason); !again.IsZero() && again.Before(since) {
		since = again
	}
	until := since.Add(limit)
	if (rollout.InTurn(server.Status.Workload) || w.waits() != nil) && until.After(end) {
		until = end
	}
	return until.Sub(now)
}

// turns is for how many times its patience a server may take a configuration.
const turns = 3

// progressed is when a pod became ready last. One that is ending has until the
// end of its grace period, which is its deletionTimestamp.
func (w *world) progressed() (last time.Time) {
	for i := range w.pods {
		at := readySince(&w.pods[i])
		if t := w.pods[i].DeletionTimestamp; t != nil {
			at = *t
		}
		if at.After(last) {
			last = at.Time
		}
	}
	return last
}

func readySince(pod *corev1.Pod) metav1.Time {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return metav1.Time{}
	}
	return pod.Status.Conditions[i].LastTransitionTime
}

// deadline is when a server that shows Reconciling has to be looked at again, or one whose
// pods were evicted, 0
// for never. A timer, because the end of patience is no event, and neither is that of evictions.
func (w *world) deadline(server *v1alpha1.MCPServer, now time.Time) time.Duration {
	if again, _ := w.repeats(v1alpha1.ReasonEvicted); again != nil && isReady(server) {
		return again.Last.Add(complaints.Lull).Sub(now)
	}
	c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReconciling)
	if c == nil || c.Status != metav1.ConditionTrue || patience(server, c.Reason) == forever {
		return 0
	}
	return max(0, w.left(server, c, patience(server, c.Reason), now))
}

// halts reports whether calls are not served because the spec asks for it.
func halts(reason string) bool {
	return reason == v1alpha1.ReasonSuspended || reason == v1alpha1.ReasonScaledToZero
}

// stopped reports whether a server that is suspended or scaled to zero has no
// pod left of what it is to have none of.
func (w *world) stopped(server *v1alpha1.MCPServer) bool {
	p, b := w.proxy, w.backend
	proxy := p == nil || ptr.Deref(p.Spec.Replicas, 1) == 0 && p.Status.ObservedGeneration >= p.Generation && p.Status.Replicas == 0
	backend := b == nil || ptr.Deref(b.Spec.Replicas, 1) == 0 && b.Status.ObservedGeneration >= b.Generation && b.Status.Replicas == 0
	return (workload.ProxyReplicas(server, 0) > 0 || proxy && w.running(workload.ComponentProxy) == 0) &&
		(backendReplicas(server) > 0 || backend && w.running(workload.ComponentBackend) == 0)
}

// running counts the pods of a component, also those that are ending: they still
// hold calls. One that has ended holds none.
func (w *world) running(component string) (n int) {
	for i := range w.pods {
		if w.pods[i].Labels[workload.LabelComponent] == component && !hasEnded(&w.pods[i]) {
			n++
		}
	}
	return n
}

// hasEnded reports whether a pod will run nothing more. An evicted one stays for
// long.
func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}
