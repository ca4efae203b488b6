package snapshot

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/complaints"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

func (p *Pod) cures() conditions.Cures {
	if p.Component == workload.ComponentProxy {
		return conditions.OfProxy
	}
	return conditions.OfBackend
}

// Wanted is what pods are to run: Revision those of the proxy, none where that is not valid, and what has Hash those of
// the backend in Slot.
type Wanted struct {
	Revision revision.Revision
	Slot     workload.Slot
	Hash     string
}

// FirstFailure is the first thing that keeps a pod from running, or from being made, that is to run what is wanted; nil
// for nothing.
func (s *Snapshot) FirstFailure(want Wanted) *conditions.Finding {
	for i := range s.Pods.all {
		if pod := &s.Pods.all[i]; want.has(pod) {
			if f := conditions.PodTrouble(pod.Pod, s.Complaints.all, pod.cures()); f != nil {
				return f
			}
		}
	}
	if f := s.ended(want); f != nil {
		return f
	}
	proxy, in := s.Proxy(), s.Slots[want.Slot]
	if in.Refused.Words != "" && in.Backend.Hash == want.Hash {
		return new(in.RefusedPod())
	}
	if f := s.paused(want); f != nil {
		return f
	}
	if !proxy.Exists() || !want.hasProxy(proxy.Revision) {
		return nil
	}
	for _, c := range proxy.Live.Status.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
			return new(conditions.Refusal(c.Message, conditions.OfProxy, proxy.Live.Spec.Template.Spec))
		}
	}
	return nil
}

// RefusedPod is what refuses a pod of the backend.
func (in *Slot) RefusedPod() conditions.Finding { return refusedPod(in.Refused.Words, &in.Backend) }

func refusedPod(words string, backend *Backend) conditions.Finding {
	return conditions.Refusal(words, conditions.OfBackend, backend.Live.Spec.Template.Spec)
}

// paused says that somebody holds the rollout of what is wanted: by spec.paused of the
// Deployment, or by a partition of the StatefulSet. Neither is a field of Freehold.
func (s *Snapshot) paused(want Wanted) *conditions.Finding {
	proxy, backend := s.Proxy(), &s.Slots[want.Slot].Backend
	if proxy.Exists() && proxy.Live.Spec.Paused && want.hasProxy(proxy.Revision) &&
		(proxy.Live.Status.Replicas == 0 || !proxy.RolledOut(want.Revision, false)) {
		return new(conditions.Paused(proxy.Live.Name))
	}
	if !backend.Exists() || backend.Hash != want.Hash || backend.Live.Spec.UpdateStrategy.RollingUpdate == nil ||
		backend.RolledOut(want.Revision, want.Hash, false) {
		return nil
	}
	if partition := ptr.Deref(backend.Live.Spec.UpdateStrategy.RollingUpdate.Partition, 0); partition > 0 {
		return new(conditions.Partitioned(backend.Live.Name, partition))
	}
	return nil
}

// Unready is what is known of the first pod that runs what is wanted and is not ready, to be added to what is said
// of them all.
func (s *Snapshot) Unready(want Wanted) string {
	for i := range s.Pods.all {
		pod := &s.Pods.all[i]
		if !want.has(pod) {
			continue
		}
		cures := pod.cures()
		cures.Upstream = "the server at spec.url"
		if server, is := s.Object.(*v1alpha1.MCPServer); is {
			cures.Upstream = "the backend"
			if server.Spec.Transport != v1alpha1.TransportStdio { // there our bridge listens
				cures.Port = server.Spec.Port
			}
		}
		if text := conditions.Unready(pod.Pod, s.Complaints.all, cures); text != "" {
			return "; " + text
		}
	}
	return ""
}

// ProxiesUnanswered reports whether proxies with a revision run, and what gets the calls answers none of them: a proxy
// gets ready with its first answer, and says since then whether it has others.
func (s *Snapshot) ProxiesUnanswered(rev revision.Revision) (run bool) {
	for _, pod := range s.Pods.Of(workload.ComponentProxy, Active) {
		switch {
		case pod.Revision != rev:
		case !pod.ReadySince.IsZero() && !s.ActiveFails():
			return false
		case pod.Status.Phase == corev1.PodRunning:
			run = run || conditions.PodTrouble(pod.Pod, s.Complaints.all, pod.cures()) == nil
		}
	}
	return run
}

// ActiveFails reports whether what gets the calls does not answer MCP, as a runner says.
func (s *Snapshot) ActiveFails() bool {
	return s.Last.Active != nil && s.Last.AnswersOf(s.Last.Active.Hash) == Fails
}

// Kubelet ends a pod that takes more than it may, or does not take it, and the controllers of Kubernetes make another
// one: the pod that it was is gone, and the next one may even be ready for a while. What is left is what kubelet said.

// lately is how long the next pod may be made after the one that was ended.
const lately = time.Minute

// ended says why kubelet has ended the pod in whose place one is to come that is not ready yet.
func (s *Snapshot) ended(want Wanted) *conditions.Finding {
	if want.hasProxy(s.Proxy().Revision) {
		if last := s.Complaints.ended(workload.ComponentProxy, s.Proxy().Written); last != nil && s.replaces(last) {
			return new(last.Ended(conditions.OfProxy))
		}
	}
	if backend := &s.Slots[want.Slot].Backend; backend.Exists() && backend.Hash == want.Hash {
		if last := s.Complaints.ended(want.Slot.Component(), backend.Written); last != nil && s.replaces(last) {
			return new(last.Ended(conditions.OfBackend))
		}
	}
	return nil
}

// replaces reports whether a pod that is not ready was made in the place of one that was ended, or is about to be.
func (s *Snapshot) replaces(ended *conditions.Complaint) bool {
	there := false
	for _, pod := range s.Pods.Of(ended.Component, Active) {
		if pod.UID == ended.UID {
			continue
		}
		there = true
		if pod.ReadySince.IsZero() && pod.CreationTimestamp.Sub(ended.Last).Abs() <= lately {
			return true
		}
	}
	return !there && s.Now.Sub(ended.Last) <= lately
}

// Complaints are what Events say of the pods, also of those that are gone.
type Complaints struct {
	// slot is that of the backend that gets the calls.
	slot workload.Slot
	all  []conditions.Complaint
	// proxy and backend are since when the two have their content, and now is when it is looked at.
	proxy, backend, now time.Time
}

// ended is what kubelet said last of a pod of a component that it ended, since its workload has
// its content; nil for nothing.
func (c Complaints) ended(component string, since time.Time) (last *conditions.Complaint) {
	for i := range c.all {
		said := &c.all[i]
		if said.Component == component && said.Ends() && !said.Last.Before(since) &&
			(last == nil || said.Last.After(last.Last)) {
			last = said
		}
	}
	return last
}

// Repeated is what has been said again and again until now, with this reason of ours, and since when: that pods
// get ready in between is no progress. It is nil where it is said for the first time.
func (c Complaints) Repeated(reason string) (again *conditions.Complaint, since time.Time) {
	for _, of := range []struct {
		component string
		since     time.Time
		cures     conditions.Cures
	}{
		{c.slot.Component(), c.backend, conditions.OfBackend},
		{workload.ComponentProxy, c.proxy, conditions.OfProxy},
	} {
		for i := range c.all {
			said := &c.all[i]
			if said.Component != of.component || said.Last.Before(of.since) || !said.First.Before(said.Last) ||
				c.now.Sub(said.Last) >= complaints.Lull || said.Means(of.cures) != reason {
				continue
			}
			first := said.First
			if first.Before(of.since) {
				first = of.since
			}
			if again == nil || first.Before(since) {
				again, since = said, first
			}
		}
	}
	return again, since
}
