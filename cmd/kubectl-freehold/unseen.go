package main

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// unseenFor is how long an operator may take to act on an object: after that none watches it, and a person must act.
const unseenFor = 5 * time.Minute

func unseen(u *unstructured.Unstructured, now time.Time, what string) attention {
	since := changed(u)
	return attention{
		Object: referenceTo(u), State: "NotSeen", Message: what + ": see whether one runs and watches the namespace",
		Since: stamp(since), since: since, Act: since != nil && now.Sub(since.Time) > unseenFor,
	}
}

// changed is when the object was last deleted, changed in its spec, or created; nil if unknown.
func changed(u *unstructured.Unstructured) *metav1.Time {
	if deleted := u.GetDeletionTimestamp(); deleted != nil {
		return deleted
	}
	var last *metav1.Time
	if made := u.GetCreationTimestamp(); !made.IsZero() {
		last = &made
	}
	for _, entry := range u.GetManagedFields() {
		if entry.Subresource == "" && entry.Time != nil && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	return last
}
