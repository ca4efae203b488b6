package mcpserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
)

// A condition that somebody else applies cannot go with ours, and must not keep the rest of the report from going out.
func TestAConditionThatOthersHoldStays(t *testing.T) {
	r, s := settled(t)
	theirs := v1alpha1ac.MCPServer("echo", "ns").WithStatus(v1alpha1ac.MCPServerStatus().WithConditions(
		metav1ac.Condition().WithType(v1alpha1.ConditionReconciling).WithStatus(metav1.ConditionTrue)))
	if err := s.apply(theirs, "intruder", "status"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Reconcile(t.Context(), theServer); err != nil {
			t.Fatal(err)
		}
	}
	c := meta.FindStatusCondition(read(s).Status.Conditions, v1alpha1.ConditionReconciling)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonHeldByOthers ||
		c.LastTransitionTime.IsZero() {
		t.Errorf("the condition is %v, want False and whole", c)
	}
	before := s.applies
	if _, err := r.Reconcile(t.Context(), theServer); err != nil {
		t.Fatal(err)
	}
	if s.applies != before {
		t.Errorf("the next pass made %d writes", s.applies-before)
	}
}
