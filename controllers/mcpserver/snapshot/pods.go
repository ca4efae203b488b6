package snapshot

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// PodState is whether a pod holds calls.
type PodState int

const (
	// Active means that it runs, or is about to.
	Active PodState = iota
	// Ending means that it was deleted, and still holds calls.
	Ending
	// Ended means that it will run nothing more. An evicted one stays for long.
	Ended
)

// Pod is a pod of the proxy or the backend.
type Pod struct {
	*corev1.Pod
	Component string
	State     PodState
	// Revision is that of a proxy pod, and Hash names what a backend pod runs.
	Revision revision.Revision
	Hash     string
	// ReadySince is zero for one that is not ready.
	ReadySince time.Time
}

// unreadable is the revision of a pod whose annotations cannot be read: it is nobody's.
var unreadable = revision.Revision{Generation: -1}

func podOf(pod *corev1.Pod) Pod {
	p := Pod{
		Pod: pod, Component: pod.Labels[workload.LabelComponent],
		Hash: pod.Annotations[workload.AnnotationBackendHash],
	}
	var err error
	if p.Revision, err = revision.Of(pod.Annotations); err != nil {
		p.Revision = unreadable
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		p.State = Ended
	case pod.DeletionTimestamp != nil:
		p.State = Ending
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			p.ReadySince = c.LastTransitionTime.Time
		}
	}
	return p
}

func (w Wanted) hasProxy(rev revision.Revision) bool { return w.Revision.Valid() && rev == w.Revision }

// has reports whether a pod is to run what is wanted.
func (w Wanted) has(p *Pod) bool {
	switch {
	case p.State != Active:
		return false
	case p.Component == workload.ComponentProxy:
		return w.hasProxy(p.Revision)
	}
	return p.Component == w.Slot.Component() && p.Hash == w.Hash
}

// Pods are those of the proxy and the backend, by name.
type Pods struct{ all []Pod }

func podsOf(pods []corev1.Pod) Pods {
	all := make([]Pod, 0, len(pods))
	for i := range pods {
		all = append(all, podOf(&pods[i]))
	}
	return Pods{all}
}

// Of are those of a component, in one of these states.
func (p Pods) Of(component string, states ...PodState) (pods []Pod) {
	for _, pod := range p.all {
		if pod.Component == component && slices.Contains(states, pod.State) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Running counts the pods of components that hold calls, also those that are ending.
func (p Pods) Running(components ...string) (n int) {
	for _, component := range components {
		n += len(p.Of(component, Active, Ending))
	}
	return n
}

// Ready reports whether a pod of a component is ready, and not ending.
func (p Pods) Ready(component string) bool {
	return slices.ContainsFunc(p.Of(component, Active), func(pod Pod) bool { return !pod.ReadySince.IsZero() })
}

// Images are the digests of the server's image that the pods of a component with a hash run, sorted. What has no
// digest, as an image that was loaded into a node has none, is not told from others.
func (p Pods) Images(component, hash string) (digests []string) {
	for _, pod := range p.Of(component, Active) {
		if pod.Hash != hash {
			continue
		}
		for i := range pod.Status.ContainerStatuses {
			c := &pod.Status.ContainerStatuses[i]
			if c.Name == podtemplate.ServerContainer {
				digests = append(digests, strings.TrimPrefix(conditions.ImageDigest(c.ImageID), "@"))
			}
		}
	}
	slices.Sort(digests)
	digests = slices.DeleteFunc(slices.Compact(digests), func(digest string) bool { return digest == "" })
	return digests[:min(len(digests), mostImages)]
}

// mostImages are as many as a message names.
const mostImages = 3

// HasOrphan reports whether nothing controls a pod of a component, and it is not ending.
func (p Pods) HasOrphan(component string) bool {
	return slices.ContainsFunc(p.Of(component, Active), func(pod Pod) bool {
		return metav1.GetControllerOfNoCopy(pod) == nil
	})
}

// Without are the pods but those of a component.
func (p Pods) Without(component string) Pods {
	return Pods{slices.DeleteFunc(slices.Clone(p.all), func(pod Pod) bool { return pod.Component == component })}
}

// LongestGrace is the longest grace period of the pods of components that hold calls.
func (p Pods) LongestGrace(components ...string) time.Duration {
	var grace int64
	for _, component := range components {
		for _, pod := range p.Of(component, Active, Ending) {
			grace = max(grace, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0))
		}
	}
	return time.Duration(grace) * time.Second
}

// Progressed is when a pod became ready last. One that is ending has until the
// end of its grace period, which is its deletionTimestamp.
func (p Pods) Progressed() (last time.Time) {
	for _, pod := range p.all {
		at := pod.ReadySince
		if end := pod.DeletionTimestamp; end != nil {
			at = end.Time
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

func (p Pods) mounts(rev revision.Revision) bool {
	return slices.ContainsFunc(p.all, func(pod Pod) bool { return pod.Revision == rev })
}
