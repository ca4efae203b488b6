package conditions

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// What a condition says is text. A controller reads it only to say it again, or to see whether it says something new.

// Restate is what a condition says, to be said again.
func Restate(c *metav1.Condition) Finding {
	return Finding{Status: c.Status, Reason: c.Reason, Message: c.Message}
}

// SaidBy reports whether a condition says the same; nil says nothing.
func (f Finding) SaidBy(c *metav1.Condition) bool { return c != nil && Restate(c) == f }

// RewordedBy reports whether a condition gives the same reason in other words; nil says nothing.
func (f Finding) RewordedBy(c *metav1.Condition) bool {
	return c != nil && c.Reason == f.Reason && c.Message != f.Message
}

// MessageChangeInterval is how often a message in the words of others may change.
const MessageChangeInterval = time.Minute

// Stabilized is the finding with the message of a condition that gives the same reason, where that message is of less
// than MessageChangeInterval ago. Messages of the API server, of a webhook, or of a container may differ each time, by
// a port or a time: each change is a write, which wakes the next pass, which is refused again.
func (f Finding) Stabilized(c *metav1.Condition, changed, now time.Time) Finding {
	if f.RewordedBy(c) && now.Sub(changed) < MessageChangeInterval {
		f.Message = c.Message
	}
	return f
}

// BackendConflict is what BackendApplied says of overwritten fields, nil for nothing.
func BackendConflict(applied *metav1.Condition) *Finding {
	if applied == nil || applied.Reason != v1alpha1.ReasonFieldConflict {
		return nil
	}
	return new(True(applied.Reason, applied.Message))
}
