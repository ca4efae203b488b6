// Package said is bad input: decisions by what conditions say.
package said

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/controllers/conditions"
)

func waits(ready *metav1.Condition) bool {
	return ready.Reason == "RolloutPending" // want `a condition's Reason is read here`
}

func names(all []metav1.Condition, kind string) bool {
	for _, c := range all {
		if c.Status == metav1.ConditionFalse && c.Message == kind { // want `a condition's Message is read here`
			return true
		}
	}
	return false
}

// What is about to be said is no condition yet.
func tells(f conditions.Finding) bool { return f.Reason == "Ready" }
