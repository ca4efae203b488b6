package mcpserver

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/complaints"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Kubelet ends a pod that takes more than it may, or does not take it, and the
// controllers of Kubernetes make another one: the pod that it was is gone, and the next one
// may even be ready for a while. What is left is what kubelet said.

// lately is how long the next pod may be made after the one that was ended.
const lately = time.Minute

// ends says why kubelet has ended the pod in whose place one is to come that is not ready yet.
func (w *world) ends(rev revision.Revision, hash string) *conditions.Finding {
	if revisionOf(w.proxy) == rev {
		if last := w.ended(workload.ComponentProxy, written(w.proxy)); last != nil && w.replaces(last) {
			return new(last.Ended(conditions.OfProxy))
		}
	}
	if w.backend != nil && backendHash(w.backend) == hash {
		if last := w.ended(workload.ComponentBackend, written(w.backend)); last != nil && w.replaces(last) {
			return new(last.Ended(conditions.OfBackend))
		}
	}
	return nil
}

// ended is what kubelet said last of a pod of a component that it ended, since its workload has
// its content; nil for nothing.
func (w *world) ended(component string, since time.Time) (last *conditions.Complaint) {
	for i := range w.complaints {
		c := &w.complaints[i]
		if c.Component == component && c.Ends() && !c.Last.Before(since) && (last == nil || c.Last.After(last.Last)) {
			last = c
		}
	}
	return last
}

// replaces reports whether a pod that is not ready was made in the place of one that was
// ended, or is about to be.
func (w *world) replaces(ended *conditions.Complaint) bool {
	there := false
	for i := range w.pods {
		pod := &w.pods[i]
		if pod.Labels[workload.LabelComponent] != ended.Component || pod.DeletionTimestamp != nil || hasEnded(pod) || pod.UID == ended.UID {
			continue
		}
		there = true
		if since := readySince(pod); since.IsZero() && pod.CreationTimestamp.Sub(ended.Last).Abs() <= lately {
			return true
		}
	}
	return !there && w.now.Sub(ended.Last) <= lately
}

// repeats is what has been said again and again until now, with this reason of ours, and since when: that pods
// get ready in between is no progress. It is nil where it is said for the first time.
func (w *world) repeats(reason string) (again *conditions.Complaint, since time.Time) {
	for _, of := range []struct {
		component string
		since     time.Time
		cures     conditions.Cures
	}{{workload.ComponentBackend, written(w.backend), conditions.OfBackend}, {workload.ComponentProxy, written(w.proxy), conditions.OfProxy}} {
		for i := range w.complaints {
			c := &w.complaints[i]
			if c.Component != of.component || c.Last.Before(of.since) || !c.First.Before(c.Last) || w.now.Sub(c.Last) >= complaints.Lull || c.Means(of.cures) != reason {
				continue
			}
			first := c.First
			if first.Before(of.since) {
				first = of.since
			}
			if again == nil || first.Before(since) {
				again, since = c, first
			}
		}
	}
	return again, since
}

// written is when the content of a workload last changed, as the API server records it for the
// manager that writes it; zero where nothing says so.
func written[T any, O interface {
	*T
	client.Object
}](object O) (last time.Time) {
	if object == nil {
		return last
	}
	for _, e := range object.GetManagedFields() {
		if e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && e.Time != nil && e.Time.After(last) && writes(e.Manager) {
			last = e.Time.Time
		}
	}
	return last
}

// writes reports whether a manager writes the content of workloads.
func writes(manager string) bool {
	for _, k := range kinds.All() {
		if manager == string(k.ChildrenManager) {
			return true
		}
	}
	return manager == string(contract.RunnerBackend)
}
