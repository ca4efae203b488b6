package rollout

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

const (
	kind, name    = "MCPAuthzConfig", "team"
	before, after = "before", "after"
)

// claimed is a workload whose third content was rendered from a configuration.
func claimed(hash string) Workload {
	return Workload{
		Name:    "echo",
		Claim:   &v1alpha1.WorkloadStatus{Generation: 3, Configs: []v1alpha1.WorkloadConfig{{Kind: kind, Name: name, Hash: hash}}},
		Runtime: &v1alpha1.RuntimeStatus{Generation: 3},
	}
}

func (w Workload) says(condition string, status metav1.ConditionStatus, reason string) Workload {
	w.Conditions = append([]metav1.Condition{{Type: condition, Status: status, Reason: reason}}, w.Conditions...)
	return w
}

func (w Workload) notReady(reason string) Workload {
	return w.says(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
}

// known is one that has answered with what it claimed last.
func (w Workload) known() Workload {
	return w.says(v1alpha1.ConditionBackendAnswers, metav1.ConditionTrue, v1alpha1.ReasonAnswers)
}

// rolled is one that took its content as the configuration changed.
func (w Workload) rolled() Workload {
	claim := *w.Claim
	claim.ConfigRollout = true
	w.Claim = &claim
	return w
}

func (w Workload) stopped() Workload {
	w.Stopped = true
	return w
}

func TestThePhaseOfAWorkloadIsReadFromWhatItReports(t *testing.T) {
	ready := func(w Workload) Workload {
		return w.known().says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	stalled := func(w Workload) Workload { return w.says(v1alpha1.ConditionStalled, metav1.ConditionTrue, "") }
	for what, tc := range map[string]struct {
		w    Workload
		want Phase
	}{
		"new":                                      {Workload{}, Apart},
		"ready with it":                            {ready(claimed(after)), Done},
		"ready with it, as it changed":             {ready(claimed(after).rolled()), Done},
		"ready with what it said before":           {ready(claimed(before)), Waiting},
		"ready with another one":                   {ready(Workload{Claim: &v1alpha1.WorkloadStatus{Generation: 3}}), Waiting},
		"waits":                                    {claimed(before).known().notReady(v1alpha1.ReasonRolloutPending), Waiting},
		"waits again":                              {claimed(before).rolled().known().notReady(v1alpha1.ReasonRolloutPending), Waiting},
		"waits for a correction":                   {claimed(before).known().notReady(v1alpha1.ReasonAuthzConfigInvalid), Waiting},
		"refers to another that is missing":        {claimed(before).known().notReady(v1alpha1.ReasonOIDCConfigNotFound), Apart},
		"took it, and refers to one that is gone":  {claimed(after).rolled().notReady(v1alpha1.ReasonOIDCConfigNotFound), Apart},
		"refers to one that is being deleted":      {claimed(before).known().notReady(v1alpha1.ReasonAuthzConfigDeleting), Apart},
		"never answered, and waits":                {claimed(before).notReady(v1alpha1.ReasonAuthzConfigInvalid), Waiting},
		"was admitted":                             {claimed(before).known().notReady(v1alpha1.ReasonUpdating), Moving},
		"was claimed, and says nothing yet":        {claimed(after).rolled().notReady(v1alpha1.ReasonRolloutPending), Moving},
		"is on its way":                            {claimed(after).rolled().notReady(v1alpha1.ReasonUpdating), Moving},
		"is nearly there":                          {claimed(after).rolled().known().notReady(v1alpha1.ReasonUpdating), Moving},
		"changed again on its way":                 {claimed(before).rolled().notReady(v1alpha1.ReasonUpdating), Moving},
		"changed again, and says nothing yet":      {claimed(before).rolled().notReady(v1alpha1.ReasonRolloutPending), Moving},
		"changed again after it failed":            {claimed(before).rolled().notReady(v1alpha1.ReasonCrashLoop), Moving},
		"failed":                                   {claimed(after).rolled().notReady(v1alpha1.ReasonCrashLoop), Failed},
		"is stalled":                               {stalled(claimed(after).rolled()).notReady(v1alpha1.ReasonUpdating), Failed},
		"waits for another configuration":          {claimed(after).rolled().known().notReady(v1alpha1.ReasonRolloutPending), Done},
		"failed after it was ready":                {claimed(after).rolled().known().notReady(v1alpha1.ReasonCrashLoop), Apart},
		"its claim was refused":                    {claimed(before).known().notReady(v1alpha1.ReasonApplyFailed), Failed},
		"something else of it was refused":         {claimed(after).known().notReady(v1alpha1.ReasonApplyFailed), Apart},
		"fails by itself":                          {claimed(after).notReady(v1alpha1.ReasonCrashLoop), Apart},
		"fails by itself, without the content":     {claimed(before).known().notReady(v1alpha1.ReasonCrashLoop), Apart},
		"changes by itself":                        {claimed(after).notReady(v1alpha1.ReasonUpdating), Apart},
		"starts":                                   {claimed(after).notReady(v1alpha1.ReasonStarting), Done},
		"fails by itself after it was ready":       {claimed(after).known().notReady(v1alpha1.ReasonCrashLoop), Apart},
		"changes by itself, without the content":   {claimed(before).notReady(v1alpha1.ReasonUpdating), Apart},
		"is wrong, and does not have the content":  {claimed(before).known().notReady(v1alpha1.ReasonSpecInvalid), Apart},
		"is stopped with it":                       {ready(claimed(after)).stopped(), Done},
		"is stopped without it":                    {ready(claimed(before)).stopped(), Apart},
		"is stopped after it failed":               {claimed(after).rolled().notReady(v1alpha1.ReasonCrashLoop).stopped(), Done},
		"says nothing, because it has just begun":  {claimed(before), Apart},
		"of a runner that speaks of older content": {Workload{Claim: &v1alpha1.WorkloadStatus{Generation: 4, ConfigRollout: true}, Runtime: &v1alpha1.RuntimeStatus{Generation: 3}}.known().notReady(v1alpha1.ReasonCrashLoop), Moving},
	} {
		t.Run(what, func(t *testing.T) {
			if got := tc.w.Member(kind, name, after).Phase; got != tc.want {
				t.Errorf("phase %d, want %d", got, tc.want)
			}
		})
	}
}

func TestAServerThatServesNoCallsIsStopped(t *testing.T) {
	zero := int32(0)
	for what, server := range map[string]*v1alpha1.MCPServer{
		"suspended":     {Spec: v1alpha1.MCPServerSpec{Suspend: true}},
		"no backend":    {Spec: v1alpha1.MCPServerSpec{Replicas: &zero}},
		"no proxy":      {Spec: v1alpha1.MCPServerSpec{Proxy: &v1alpha1.ProxySpec{Replicas: &zero}}},
		"it is leaving": {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}},
	} {
		if !OfServer(server).Stopped {
			t.Errorf("%s: it is not", what)
		}
	}
	if OfServer(&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{Proxy: &v1alpha1.ProxySpec{}}}).Stopped {
		t.Error("one that runs is")
	}
}
