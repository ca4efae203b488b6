// Package complaints keeps Warning Events about the pods of Freehold's servers, since kubelet and other controllers
// report some problems nowhere else, and why kubelet ended a pod. Start with Store; source.go fills it.
package complaints

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Anyone who can create Events in a namespace decides how many there are. So these bound what is kept in bytes: of
// one server, one namespace and all. The latest stays. A complaint takes overhead and its texts, each at most
// longName, and its message, which conditions.Plain bounds.
const (
	mostOfServer    = 16 << 10
	mostOfNamespace = 256 << 10
	mostOfAll       = 4 << 20
	overhead        = 512
	longName        = 253
)

// Lull is the silence after which the same complaint counts as new.
const Lull = 10 * time.Minute

// Store keeps complaints. The zero value is ready for use; a nil one stays empty.
type Store struct {
	mu sync.Mutex
	// namespaces have complaints, the latest last.
	namespaces map[string][]kept
	size       int
	wakes      []func(namespace, key string)
}

// kept is a complaint about a pod of the server with this key, and the name of its last Event, empty if the pod itself
// says it.
type kept struct {
	conditions.Complaint
	key, event string
}

func (k *kept) size() int {
	return overhead + len(k.key) + len(k.event) + len(k.Pod) + len(k.UID) + len(k.Container) + len(k.Reason) + len(k.Words)
}

// repeats reports whether k and other say the same. An ended pod's complaint stands for those of its replacements.
func (k *kept) repeats(other *kept) bool {
	return k.key == other.key && k.Component == other.Component && k.Container == other.Container &&
		k.Reason == other.Reason && k.Words == other.Words &&
		(k.UID == other.UID || k.Ends())
}

// Of returns the complaints about the pods of a server, in a stable order.
func (s *Store) Of(namespace, key string) (all []conditions.Complaint) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.namespaces[namespace] {
		if k := &s.namespaces[namespace][i]; k.key == key {
			all = append(all, k.Complaint)
		}
	}
	slices.SortFunc(all, func(a, b conditions.Complaint) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Container, b.Container), cmp.Compare(a.Words, b.Words))
	})
	return all
}

// OnNews registers wake, which is called for each server with a new complaint.
func (s *Store) OnNews(wake func(namespace, key string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakes = append(s.wakes, wake)
}

func (s *Store) add(e *corev1.Event) {
	s.tell(e.Namespace, complaint(e))
}

// ended keeps why kubelet ended a pod that may be ours.
func (s *Store) ended(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodFailed {
		if k := end(pod); k.Ends() {
			s.tell(pod.Namespace, k)
		}
	}
}

func (s *Store) tell(namespace string, k kept) {
	if k.key == "" {
		return
	}
	for _, wake := range s.keep(namespace, k) {
		wake(namespace, k.key)
	}
}

func (s *Store) keep(namespace string, k kept) (wakes []func(namespace, key string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, news := s.namespaces[namespace], true
	if i := slices.IndexFunc(all, func(old kept) bool { return old.repeats(&k) }); i >= 0 {
		old := all[i]
		if k.Last.Before(old.Last) || k.UID == old.UID && k.Ends() {
			return nil // a list has its Events in any order, and a pod ends once
		}
		if k.First.After(old.First) && k.First.Sub(old.Last) < Lull {
			k.First = old.First
		}
		news = k.UID != old.UID || k.Lasts() != old.Lasts()
		s.drop(namespace, i)
	}
	if s.namespaces == nil {
		s.namespaces = map[string][]kept{}
	}
	s.namespaces[namespace] = append(s.namespaces[namespace], k)
	s.size += k.size()
	s.bound(namespace, k.key)
	if !news {
		return nil
	}
	return s.wakes
}

func (s *Store) bound(namespace, key string) {
	ofServer, ofNamespace := 0, 0
	for i := range s.namespaces[namespace] {
		k := &s.namespaces[namespace][i]
		ofNamespace += k.size()
		if k.key == key {
			ofServer += k.size()
		}
	}
	for i := 0; ofServer > mostOfServer; i++ {
		if k := s.namespaces[namespace][i]; k.key == key {
			ofServer, ofNamespace = ofServer-k.size(), ofNamespace-k.size()
			s.drop(namespace, i)
			i--
		}
	}
	for ; ofNamespace > mostOfNamespace; ofNamespace -= s.drop(namespace, 0) {
	}
	for s.size > mostOfAll {
		s.drop(s.fullest(), 0)
	}
}

func (s *Store) fullest() (fullest string) {
	most := 0
	for namespace, all := range s.namespaces {
		size := 0
		for i := range all {
			size += all[i].size()
		}
		if size > most {
			fullest, most = namespace, size
		}
	}
	return fullest
}

func (s *Store) drop(namespace string, i int) int {
	size := s.namespaces[namespace][i].size()
	s.size -= size
	s.namespaces[namespace] = slices.Delete(s.namespaces[namespace], i, i+1)
	if len(s.namespaces[namespace]) == 0 {
		delete(s.namespaces, namespace)
	}
	return size
}

// forget removes complaints of Events for which gone is true.
func (s *Store) forget(namespace string, gone func(event string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(s.namespaces[namespace]); i++ {
		if event := s.namespaces[namespace][i].event; event != "" && gone(event) {
			s.drop(namespace, i)
			i--
		}
	}
}

func (s *Store) all() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.namespaces {
		names = append(names, name)
	}
	return names
}

// complaint reads an Event about a pod that may be ours; the key is empty if it cannot be.
func complaint(e *corev1.Event) kept {
	of := e.InvolvedObject
	if len(of.Name) > longName || len(e.Name) > longName || len(of.UID) > longName || len(of.FieldPath) > longName ||
		len(e.Reason) > longName {
		return kept{}
	}
	key, component := workload.OfPod(of.Name)
	first, last := times(e)
	return kept{key: key, event: e.Name, Complaint: conditions.Complaint{
		Pod: of.Name, UID: of.UID, Component: component, Container: container(of.FieldPath),
		Reason: e.Reason, Words: conditions.Plain(e.Message), First: first, Last: last,
	}}
}

// rejected is what kubelet puts before the message of its Event in the status of a pod that it does not take
// (pkg/kubelet: rejectPod).
const rejected = "Pod was rejected: "

// end reads from a pod that failed why, and when by its node's clock.
func end(pod *corev1.Pod) kept {
	last := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		last = later(last, c.LastTransitionTime.Time)
	}
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil {
			last = later(last, t.FinishedAt.Time)
		}
	}
	key, component := workload.OfPod(pod.Name)
	return kept{key: key, Complaint: conditions.Complaint{
		Pod: pod.Name, UID: pod.UID, Component: component, Reason: pod.Status.Reason,
		Words: conditions.Plain(strings.TrimPrefix(pod.Status.Message, rejected)), First: last, Last: last,
	}}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// times are an Event's first and last occurrence by its node's clock, not earlier than its creation.
func times(e *corev1.Event) (first, last time.Time) {
	first, last = e.FirstTimestamp.Time, e.LastTimestamp.Time
	last = later(later(last, e.EventTime.Time), e.CreationTimestamp.Time)
	if e.Series != nil {
		last = later(last, e.Series.LastObservedTime.Time)
	}
	if first.IsZero() {
		first = cmp.Or(e.EventTime.Time, e.CreationTimestamp.Time, last)
	}
	if first.After(last) {
		first = last
	}
	return first, last
}
