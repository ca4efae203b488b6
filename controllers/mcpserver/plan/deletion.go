package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// lookAgain is when a server that stops is looked at again where no event comes.
const lookAgain = 5 * time.Second

func hidden(s *snapshot.Snapshot) time.Duration {
	if s.Hidden {
		return lookAgain // the end of what the cache does not show is no event
	}
	return 0
}

// drainTimeout is how long a server that stops waits for its proxy pods: for the grace
// period of the Deployment that stands, whose pods are the newest, or else the default.
func drainTimeout(proxy *snapshot.Proxy) time.Duration {
	grace := int64(runconfig.DefaultGrace)
	if proxy.Exists() {
		grace = ptr.Deref(proxy.Live.Spec.Template.Spec.TerminationGracePeriodSeconds, grace)
	}
	return time.Duration(grace)*time.Second + snapshot.SlowNode
}

// stopNext is the whole order in which a server stops, because it is deleted or because its spec wants no backend.
// Calls in flight end first: proxies go to zero, then no proxy pod may be left (bounded), then the backend goes, by its
// replicas or as a whole, and of a deleted server the finalizer. Where a NetworkPolicy stands before the backend, its
// pods end first, since until then they answer whoever reaches them; then the policy goes, which
// config/policy/deletion-order.yaml keeps from the garbage collector. Failures of the first two steps are bounded by
// drainTimeout; then the server goes on.
func stopNext(s *snapshot.Snapshot, proxy *snapshot.Proxy, pods snapshot.Pods) Action {
	timeout, policy := drainTimeout(proxy), s.Policy()
	patient, left := s.Now.Before(s.Stops.Server.Add(timeout)), pods.Running(workload.ComponentProxy)
	gone, backend := !s.HasBackend(), nextBackend(s)
	switch {
	case patient && proxy.Exists() && proxy.Live.DeletionTimestamp == nil && proxy.Replicas != 0:
		return StopProxies{Live: proxy.Live}
	case left > 0 && patient:
		return AwaitProxies{}
	case backend != nil:
		return DeleteBackend{Live: backend.Live, Left: left, After: timeout}
	case !policy.Ours():
		return ReleaseFinalizer{}
	}
	left = pods.Running(workload.Backends...)
	after := pods.LongestGrace(workload.Backends...) + snapshot.SlowNode
	if gone && left > 0 && s.Now.Before(s.Stops.Backend.Add(after)) {
		return AwaitBackend{}
	}
	if !gone {
		left = 0 // nobody's pods are waited for behind another's backend
	}
	return DeletePolicy{Live: policy.Live, Left: left, After: after}
}

// nextBackend is the first backend of the server that is not on its way out, nil for none.
func nextBackend(s *snapshot.Snapshot) *snapshot.Backend {
	for _, b := range s.Backends() {
		if b.Ours() && b.Live.DeletionTimestamp == nil {
			return b
		}
	}
	return nil
}

func (m *maker) delete(proxy *snapshot.Proxy) {
	finalizers := m.s.Object.GetFinalizers()
	// In foreground deletion the backend waits for us also without our finalizer: config/policy/deletion-order.yaml.
	if !slices.Contains(finalizers, m.s.Kind.Finalizer) && !slices.Contains(finalizers, metav1.FinalizerDeleteDependents) {
		return
	}
	m.wake(hidden(m.s))
	if slices.Contains(finalizers, metav1.FinalizerOrphanDependents) {
		m.always(OrphanChildren{})
		return
	}
	pods := m.s.Pods
	if proxy.Lost() { // it was orphaned, and its pods go on
		proxy, pods = &snapshot.Proxy{}, pods.Without(workload.ComponentProxy)
	}
	switch next := stopNext(m.s, proxy, pods).(type) {
	case StopProxies:
		restated, err := workload.ScaledProxy(proxy.Live, m.owner, string(m.s.Kind.ChildrenManager), 0)
		if err != nil {
			// Not built by us, or taken from us whole: then it is not ours to stop.
			m.delete(&snapshot.Proxy{})
			return
		}
		next.Intent = restated
		m.always(next)
	case AwaitProxies:
		m.always(next)
		m.wake(remaining(m.s.Stops.Server, drainTimeout(proxy), m.s.Now))
	case AwaitBackend:
		m.always(next)
		m.wake(remaining(m.s.Stops.Backend, pods.LongestGrace(workload.Backends...)+snapshot.SlowNode, m.s.Now))
	case DeletePolicy:
		m.always(next, ReleaseFinalizer{})
	default:
		m.always(next)
	}
}

// drains is how long the backend of a server that is suspended or scaled to zero
// waits for the calls of its proxies, 0 if it does not.
func drains(s *snapshot.Snapshot) time.Duration {
	if kinds.BackendReplicas(s.Object) != 0 {
		return 0
	}
	switch stopNext(s, s.Proxy(), s.Pods).(type) {
	case StopProxies, AwaitProxies:
		return remaining(s.Stops.Server, drainTimeout(s.Proxy()), s.Now)
	}
	return 0
}

// remaining is what remains of a timeout. It is for a timer, because its end is no event.
func remaining(since time.Time, timeout time.Duration, now time.Time) time.Duration {
	return max(time.Second, since.Add(timeout).Sub(now))
}
