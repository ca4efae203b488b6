package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A rollout has ended once the conditions of the last generation say so, and not before.
func TestHowFarARolloutIs(t *testing.T) {
	is := func(types ...string) (conditions []metav1.Condition) {
		for _, of := range types {
			of, no := strings.CutPrefix(of, "not ")
			status := metav1.ConditionTrue
			if no {
				status = metav1.ConditionFalse
			}
			conditions = append(conditions, metav1.Condition{Type: of, Status: status, Reason: "R" + of, Message: "why"})
		}
		return conditions
	}
	at := func(state v1alpha1.RolloutStepState) *v1alpha1.RolloutStatus {
		return &v1alpha1.RolloutStatus{Steps: []v1alpha1.RolloutStep{
			{Name: "Proxies", State: v1alpha1.StepDone}, {Name: "Candidate", State: state, Message: "it starts"},
		}}
	}
	for name, tc := range map[string]struct {
		observed   int64
		conditions []metav1.Condition
		rollout    *v1alpha1.RolloutStatus
		want       progress
		says       string
	}{
		"of the generation before": {
			4, is("Ready"), nil, goesOn,
			"MCPServer/echo waits: no operator has acted on its latest change yet",
		},
		"nothing is said": {5, nil, nil, goesOn, "MCPServer/echo waits: no operator has reported on it yet"},
		"it goes on": {
			5, is("not Ready", "Reconciling"), nil, goesOn,
			"MCPServer/echo is rolling out: RReconciling: why",
		},
		"a step": {
			5, is("not Ready", "Reconciling"), at(v1alpha1.StepActive), goesOn,
			"MCPServer/echo is rolling out: RReconciling: why (step 2 of 2, Candidate: it starts)",
		},
		"it is ready": {5, is("Ready"), nil, rolledOut, "MCPServer/echo has rolled out"},
		"ready, and it goes on": {
			5, is("Ready", "Reconciling"), nil, goesOn,
			"MCPServer/echo is rolling out: RReconciling: why",
		},
		"it stalls": {5, is("not Ready", "Stalled"), nil, stalls, "MCPServer/echo stalls: RStalled: why"},
		"it serves, and is held": {
			5, is("Ready", "Stalled"), at(v1alpha1.StepFailed), stalls,
			"MCPServer/echo stalls: RStalled: why (step 2 of 2, Candidate: it starts)",
		},
		"it is suspended": {
			5, is("Suspended"), nil, rolledOut,
			"MCPServer/echo is suspended: its spec rolls out when it goes on",
		},
		"not ready without cause": {5, is("not Ready"), nil, goesOn, "MCPServer/echo is not ready: RReady: why"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Generation: 5}}
			server.Status.ObservedGeneration, server.Status.Conditions = tc.observed, tc.conditions
			server.Status.Rollout = tc.rollout
			u := &unstructured.Unstructured{
				Object: map[string]any{"kind": "MCPServer", "metadata": map[string]any{"name": "echo"}},
			}
			if got, says := progressOf(u, server); got != tc.want || says != tc.says {
				t.Errorf("it is %d, and says %q", got, says)
			}
		})
	}
}
