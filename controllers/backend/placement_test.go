package backend

import (
	"fmt"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

func TestWhichContentGoesWhere(t *testing.T) {
	run := runconfig.RunConfig{
		Workload: runconfig.Workload{Generation: 4}, Rendering: runconfig.Rendering{Backend: "mine"},
	}
	later := &v1alpha1.ActiveBackend{BackendContent: v1alpha1.BackendContent{Slot: 1, Hash: "new", Generation: 5}}
	in := func(slot int32, hash string) *v1alpha1.BackendContent {
		return &v1alpha1.BackendContent{Slot: slot, Hash: hash}
	}
	active := func(slot int32, hash string) *v1alpha1.ActiveBackend {
		return &v1alpha1.ActiveBackend{BackendContent: *in(slot, hash)}
	}
	// to is a rollout in which the steps up to this one are done.
	to := func(target, from *v1alpha1.BackendContent, at string) *v1alpha1.RolloutStatus {
		rollout, state := &v1alpha1.RolloutStatus{Target: *target, From: from}, v1alpha1.StepDone
		for _, name := range []string{"Proxies", "Candidate", "Switch", "Acknowledge", "Drain", "Teardown"} {
			step := v1alpha1.RolloutStep{Name: name, State: state}
			if name == at {
				step.State, state = v1alpha1.StepActive, v1alpha1.StepWaiting
			}
			rollout.Steps = append(rollout.Steps, step)
		}
		return rollout
	}
	failed := to(in(2, "mine"), in(1, "old"), "Candidate")
	failed.Steps[1].State = v1alpha1.StepFailed
	for name, tc := range map[string]struct {
		active  *v1alpha1.ActiveBackend
		rollout *v1alpha1.RolloutStatus
		want    string
	}{
		"no pointer": {nil, nil, "mine in 1"},
		"no pointer, whatever a rollout says": {
			nil, to(in(2, "mine"), in(1, "old"), "Candidate"), "mine in 1",
		},
		"mine is active":        {active(1, "mine"), nil, "mine in 1"},
		"mine is, in the other": {active(2, "mine"), nil, "mine in 2"},
		"mine is, a newer is tried": {
			active(1, "mine"), to(in(2, "new"), in(1, "mine"), "Candidate"), "mine in 1",
		},
		"mine is to be tried, after the proxies": {
			active(1, "old"), to(in(2, "mine"), in(1, "old"), "Proxies"),
			"the rollout has not come to the backend yet; old in 1",
		},
		"mine is tried": {
			active(1, "old"), to(in(2, "mine"), in(1, "old"), "Candidate"), "mine in 2; old in 1",
		},
		"mine is tried, the other way": {
			active(2, "old"), to(in(1, "mine"), in(2, "old"), "Candidate"), "mine in 1; old in 2",
		},
		"mine has failed": {active(1, "old"), failed, "mine in 2; old in 1"},
		"mine waits for the switch": {
			active(1, "old"), to(in(2, "mine"), in(1, "old"), "Switch"), "mine in 2; old in 1",
		},
		"mine has taken over": {
			active(2, "mine"), to(in(2, "mine"), in(1, "old"), "Acknowledge"), "mine in 2",
		},
		"the old one drains": {active(2, "mine"), to(in(2, "mine"), in(1, "old"), "Drain"), "mine in 2"},
		"the old one goes":   {active(2, "mine"), to(in(2, "mine"), in(1, "old"), "Teardown"), "mine in 2"},
		"a newer has taken over": {
			active(2, "new"), to(in(2, "new"), in(1, "mine"), "Drain"),
			"the backend is of other content, and no rollout is to this one; new in 2",
		},
		"a third one is tried": {
			active(1, "old"), to(in(2, "new"), in(1, "old"), "Candidate"),
			"the backend is of other content, and no rollout is to this one; old in 1",
		},
		"mine is to replace another in its place": {active(1, "old"), nil, "mine in 1"},
		"another is to replace mine in its place": {later, nil, "mine in 1"},
		"another is to replace mine beside it": {
			later, to(in(2, "newer"), in(1, "new"), "Candidate"),
			"the backend is of other content, and no rollout is to this one; new in 1",
		},
		"a rollout without steps": {
			active(1, "old"), &v1alpha1.RolloutStatus{Target: *in(2, "mine")},
			"the rollout has not come to the backend yet; old in 1",
		},
		"a rollout over what gets the calls": {
			active(1, "old"), to(in(1, "mine"), in(1, "old"), "Candidate"),
			"the rollout is to the slot of the content that gets the calls; old in 1",
		},
	} {
		all, got := placements(v1alpha1.MCPServerStatus{Active: tc.active, Rollout: tc.rollout}, run)
		for _, p := range all {
			hash := "mine"
			if p.content != nil {
				hash = p.content.Hash
			}
			if got != "" {
				got += "; "
			}
			got += fmt.Sprintf("%s in %d", hash, p.slot)
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
