// Package conditions turns findings into the conditions of a status. It is
// pure: finding.go has the answer to one question, stamp.go the condition that
// an intent states for it.
package conditions

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Finding is the answer to one question about an object.
type Finding struct {
	Status metav1.ConditionStatus
	// Reason is a constant in CamelCase that tools match on.
	Reason string
	// Message is a sentence for a person; it may be empty.
	Message string
}

// True is a finding that answers yes.
func True(reason, message string) Finding {
	return Finding{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False is a finding that answers no.
func False(reason, message string) Finding {
	return Finding{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
