package rollout

import (
	"errors"
	"os"
	"strings"
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
		Name: "echo", URL: "http://echo",
		Claim: &v1alpha1.WorkloadStatus{
			Generation: 3,
			Configs:    []v1alpha1.WorkloadConfig{{Kind: kind, Name: name, Hash: hash}},
		},
		Runtime: &v1alpha1.RuntimeStatus{Generation: 3},
	}
}

func (w Workload) says(condition string, status metav1.ConditionStatus, reason string) Workload {
	w.Conditions = append([]metav1.Condition{{Type: condition, Status: status, Reason: reason}}, w.Conditions...)
	return w
}

// states is one whose status has a phase, whatever its conditions say.
func (w Workload) states(phase v1alpha1.WorkloadPhase) Workload {
	w.Stated = phase
	return w.says(v1alpha1.ConditionReady, metav1.ConditionFalse, "Another")
}

func (w Workload) notReady(reason string) Workload {
	return w.says(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
}

// cannotFollow is one that refers to configurations of these kinds in vain.
func (w Workload) cannotFollow(kinds ...string) Workload {
	w.Unfollowed = kinds
	return w
}

// known is one that has answered with what it claimed last.
func (w Workload) known() Workload {
	return w.says(v1alpha1.ConditionBackendAnswers, metav1.ConditionTrue, v1alpha1.ReasonAnswers)
}

// rolled is one that took its content as the configuration changed.
func (w Workload) rolled() Workload {
	claim := *w.Claim
	claim.ConfigRollout = true // as earlier releases say it
	w.Claim = &claim
	return w
}

// answeredOnce is what a runner reports of a server that has answered it.
func (w Workload) answeredOnce() Workload {
	w.Runtime = &v1alpha1.RuntimeStatus{Generation: 3, ProtocolVersions: []string{"2025-11-25"}}
	return w
}

func (w Workload) older() Workload {
	w.Runtime = &v1alpha1.RuntimeStatus{Generation: 2, ProtocolVersions: []string{"2025-11-25"}}
	return w
}

// served is one of which is recorded that it has served with what it claimed.
func served(w Workload) Workload {
	w.Served = w.Claim.Generation
	return w
}

func born(w Workload) Workload {
	w.URL, w.Runtime = "", nil
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
	besides := func(w Workload, reason string) Workload {
		w.Served = 2
		w = w.states(v1alpha1.PhaseBlocked).notReady(reason).says(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason)
		return w.says(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonReady).
			says(v1alpha1.ConditionAccepted, metav1.ConditionTrue, "")
	}
	stalled := func(w Workload) Workload { return w.says(v1alpha1.ConditionStalled, metav1.ConditionTrue, "") }
	for what, tc := range map[string]struct {
		w    Workload
		want Phase
	}{
		"new":                            {Workload{}, Apart},
		"states that it waits":           {claimed(before).known().states(v1alpha1.PhasePending), Waiting},
		"states that a write is refused": {claimed(before).known().states(v1alpha1.PhaseRefused), Blocked},
		"states that it cannot follow": {
			claimed(before).known().states(v1alpha1.PhaseUnresolved).cannotFollow("MCPOIDCConfig"), Blocked,
		},
		"other content of its backend is held": {
			besides(claimed(before).known(), v1alpha1.ReasonRolloutHeld), Waiting,
		},
		"other content of its backend has failed, and its proxies take it": {
			besides(claimed(after).rolled(), v1alpha1.ReasonRolloutFailed), Moving,
		},
		"other content of its backend has failed, and nothing serves": {
			claimed(after).rolled().states(v1alpha1.PhaseBlocked).notReady(v1alpha1.ReasonRolloutFailed), Failed,
		},
		"its spec is wrong while other content comes up": {
			besides(claimed(after).rolled(), v1alpha1.ReasonSpecInvalid).
				says(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonSpecInvalid), Failed,
		},
		"states that it updates":         {claimed(after).rolled().states(v1alpha1.PhaseUpdating), Moving},
		"states that it fails":           {claimed(after).rolled().states(v1alpha1.PhaseFaulty), Failed},
		"ready with it":                  {ready(claimed(after)), Done},
		"ready with it, as it changed":   {ready(claimed(after).rolled()), Done},
		"ready with what it said before": {ready(claimed(before)), Waiting},
		"ready without any":              {ready(Workload{Claim: &v1alpha1.WorkloadStatus{Generation: 3}}), Apart},
		"waits": {
			claimed(before).known().notReady(v1alpha1.ReasonRolloutPending),
			Waiting,
		},
		"waits again": {
			claimed(before).rolled().known().notReady(v1alpha1.ReasonRolloutPending),
			Waiting,
		},
		"waits for a correction": {
			claimed(before).known().notReady(v1alpha1.ReasonConfigInvalid).cannotFollow(kind), Waiting,
		},
		"the same, of an earlier release": {claimed(before).known().notReady("AuthzConfigInvalid"), Waiting},
		"refers to another that is missing": {
			claimed(before).known().notReady(v1alpha1.ReasonConfigNotFound).cannotFollow(kind, "MCPOIDCConfig"), Blocked,
		},
		"another one, of an earlier release": {
			claimed(before).known().notReady("OIDCConfigNotFound").cannotFollow("MCPOIDCConfig"), Blocked,
		},
		"served, and refers to one that is gone": {
			claimed(after).rolled().known().notReady(v1alpha1.ReasonConfigNotFound).cannotFollow("MCPOIDCConfig"), Done,
		},
		"refers to another that is being deleted": {
			claimed(before).known().notReady(v1alpha1.ReasonConfigDeleting).cannotFollow("MCPOIDCConfig"), Blocked,
		},
		"took it, and cannot follow another": {
			claimed(after).rolled().notReady(v1alpha1.ReasonConfigNotFound).cannotFollow("MCPOIDCConfig"), Failed,
		},
		"was admitted":                  {claimed(before).known().notReady(v1alpha1.ReasonUpdating), Waiting},
		"is on its way":                 {claimed(after).rolled().notReady(v1alpha1.ReasonUpdating), Moving},
		"changed again on its way":      {claimed(before).rolled().notReady(v1alpha1.ReasonUpdating), Again},
		"changed again after it failed": {claimed(before).rolled().notReady(v1alpha1.ReasonCrashLoop), Again},
		"changed long after it failed": {
			stalled(claimed(before).rolled()).notReady(v1alpha1.ReasonCrashLoop),
			Free,
		},
		"failed, and its own spec is wrong": {
			stalled(claimed(before).rolled()).notReady(v1alpha1.ReasonSpecInvalid),
			Blocked,
		},
		"failed with it, and its spec is wrong": {
			stalled(claimed(after).rolled()).notReady(v1alpha1.ReasonSpecInvalid),
			Failed,
		},
		"failed": {claimed(after).rolled().notReady(v1alpha1.ReasonCrashLoop), Failed},
		"is stalled": {
			stalled(claimed(after).rolled()).notReady(v1alpha1.ReasonUpdating),
			Failed,
		},
		"waits for another configuration": {
			claimed(after).rolled().known().notReady(v1alpha1.ReasonRolloutPending),
			Done,
		},
		"failed after it was ready": {
			claimed(after).rolled().known().notReady(v1alpha1.ReasonCrashLoop),
			Done,
		},
		"its claim was refused":            {claimed(before).known().notReady(v1alpha1.ReasonApplyFailed), Blocked},
		"something else of it was refused": {claimed(after).known().notReady(v1alpha1.ReasonApplyFailed), Done},
		"a pod of it restarts":             {claimed(before).known().notReady(v1alpha1.ReasonUnavailable), Down},
		"it is down for long": {
			stalled(claimed(before).known()).notReady(v1alpha1.ReasonUnavailable),
			Free,
		},
		"fails by itself":                         {claimed(after).notReady(v1alpha1.ReasonCrashLoop), Apart},
		"fails with a change of its own":          {claimed(before).notReady(v1alpha1.ReasonCrashLoop), Free},
		"changes by itself":                       {claimed(after).notReady(v1alpha1.ReasonUpdating), Apart},
		"starts":                                  {born(claimed(after)).notReady(v1alpha1.ReasonStarting), Done},
		"starts with what it said before":         {born(claimed(before)).notReady(v1alpha1.ReasonStarting), Apart},
		"changes by itself, without the content":  {claimed(before).notReady(v1alpha1.ReasonUpdating), Down},
		"is wrong, and does not have the content": {claimed(before).known().notReady(v1alpha1.ReasonSpecInvalid), Blocked},
		"is stopped with it":                      {ready(claimed(after)).stopped(), Done},
		"is stopped without it":                   {ready(claimed(before)).stopped(), Free},
		"is stopped after it failed": {
			claimed(after).rolled().notReady(v1alpha1.ReasonCrashLoop).stopped(),
			Done,
		},
		"resumes": {served(claimed(before)), Waiting},
		"its server elsewhere went down later": {
			served(claimed(after).rolled()).says(v1alpha1.ConditionBackendAnswers, metav1.ConditionFalse, "").
				notReady(v1alpha1.ReasonNotAnswering), Done,
		},
		"of an earlier release, went down later": {
			claimed(after).rolled().answeredOnce().notReady(v1alpha1.ReasonNotAnswering), Done,
		},
		"of a runner that speaks of older content": {
			claimed(after).rolled().older().known().notReady(v1alpha1.ReasonCrashLoop), Failed,
		},
	} {
		t.Run(what, func(t *testing.T) {
			if got := tc.w.Member(kind, name, after); got.Phase != tc.want || got.Name != tc.w.Name {
				t.Errorf("%q is %s, want %s", got.Name, got.Phase, tc.want)
			}
		})
	}
}

func TestAServerThatServesNoCallsIsStopped(t *testing.T) {
	zero := int32(0)
	for what, server := range map[string]*v1alpha1.MCPServer{
		"suspended":  {Spec: v1alpha1.MCPServerSpec{ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{Suspend: true}}},
		"no backend": {Spec: v1alpha1.MCPServerSpec{Replicas: &zero}},
		"no proxy": {Spec: v1alpha1.MCPServerSpec{
			ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{Proxy: &v1alpha1.ProxySpec{Replicas: &zero}},
		}},
		"it is leaving": {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}},
	} {
		if !Of(server).Stopped {
			t.Errorf("%s: it is not", what)
		}
	}
	if Of(&v1alpha1.MCPServer{Spec: v1alpha1.MCPServerSpec{
		ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{Proxy: &v1alpha1.ProxySpec{}},
	}}).Stopped {
		t.Error("one that runs is")
	}
}

func TestAClaimSaysWhetherItWasInTurn(t *testing.T) {
	one := v1alpha1.WorkloadConfig{Kind: kind, Name: name, InTurn: true}
	for what, tc := range map[string]struct {
		claim *v1alpha1.WorkloadStatus
		want  bool
	}{
		"none":                   {nil, false},
		"by a change of its own": {claimed(after).Claim, false},
		"one of its configs": {
			&v1alpha1.WorkloadStatus{Configs: []v1alpha1.WorkloadConfig{{Kind: "MCPOIDCConfig"}, one}}, true,
		},
		"as earlier releases say it": {claimed(after).rolled().Claim, true},
	} {
		if got := InTurn(tc.claim); got != tc.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}

// The plan is asked only by who needs it, and who cannot have it takes nothing.
func TestATurnIsThatOfThePlan(t *testing.T) {
	config := v1alpha1.WorkloadConfig{Kind: kind, Name: name, Hash: after}
	broken := errors.New("no list")
	for what, tc := range map[string]struct {
		w              Workload
		plan           Plan
		err            error
		admitted, held bool
	}{
		"has it":          {served(claimed(after)), Plan{}, broken, true, false},
		"its turn":        {served(claimed(before)), Plan{Admitted: []string{"echo"}}, nil, true, false},
		"another's turn":  {served(claimed(before)), Plan{Admitted: []string{"other"}}, nil, false, false},
		"held":            {served(claimed(before)), Plan{Failed: "other"}, nil, false, true},
		"nobody can tell": {served(claimed(before)), Plan{}, broken, false, false},
	} {
		got, err := tc.w.Turn(config, func() (Plan, error) { return tc.plan, tc.err })
		if got.Admitted != tc.admitted || got.Held != tc.held || got.WorkloadConfig != config ||
			(err != nil) != (tc.err != nil && !tc.admitted) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

// A claim keeps what it has of a configuration until the turn of that comes, and counts
// among those under way until it has served: also if it is changed meanwhile.
func TestAClaimRecordsWhatWasTakenInTurn(t *testing.T) {
	turn := func(hash string, phase Phase, admitted bool) Turn {
		return Turn{
			WorkloadConfig: v1alpha1.WorkloadConfig{Kind: kind, Name: name, Hash: hash}, Phase: phase,
			Admitted: admitted,
		}
	}
	took := claimed(after)
	took.Claim.Configs[0].InTurn = true
	for what, tc := range map[string]struct {
		w      Workload
		turn   Turn
		same   bool
		hash   string
		inTurn bool
	}{
		"its turn":                          {served(claimed(before)), turn(after, Waiting, true), false, after, true},
		"not its turn":                      {served(claimed(before)), turn(after, Waiting, false), false, before, false},
		"it does not serve":                 {claimed(before), turn(after, Free, true), false, after, false},
		"it was refused":                    {claimed(before), turn(after, Blocked, true), false, after, true},
		"nothing of before":                 {Workload{}, turn(after, Apart, true), false, after, false},
		"its own change on the way":         {took, turn(after, Moving, true), false, after, true},
		"its own change later":              {served(took), turn(after, Done, true), false, after, false},
		"its own change, of an old release": {claimed(after).rolled(), turn(after, Failed, true), false, after, true},
		"the same number":                   {served(took), turn(after, Done, true), true, after, true},
		"the same number, said otherwise":   {served(claimed(before)), turn(after, Waiting, true), true, after, false},
	} {
		if got := tc.w.Records(tc.turn, tc.same); got.Hash != tc.hash || got.InTurn != tc.inTurn {
			t.Errorf("%s: it records %+v, want %s, in turn: %t", what, got, tc.hash, tc.inTurn)
		}
	}
}

// The page has the table, row by row.
func TestThePageHasTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/concepts/rollout.md")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, r := range table {
		line := "| " + r.says + " | *" + r.phase.String() + "* |"
		i := strings.Index(string(page)[at:], line)
		if i < 0 {
			t.Fatalf("docs/concepts/rollout.md does not have, in its place, %s", line)
		}
		at += i
	}
}
