package backend

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// placed is a case of a status, for a runner of generation 4 with content mine.
type placed struct {
	active  *v1alpha1.ActiveBackend
	rollout *v1alpha1.RolloutStatus
	want    string
	claim   *v1alpha1.WorkloadStatus // that of the runner in place, if nil
}

func TestWhichContentGoesWhere(t *testing.T) {
	run := runconfig.RunConfig{
		Workload: runconfig.Workload{Generation: 4}, Rendering: runconfig.Rendering{Backend: "mine"},
	}
	in := func(slot int32, hash string) *v1alpha1.BackendContent {
		return &v1alpha1.BackendContent{Slot: slot, Hash: hash, Generation: 3}
	}
	active := func(slot int32, hash string) *v1alpha1.ActiveBackend {
		return &v1alpha1.ActiveBackend{BackendContent: *in(slot, hash)}
	}
	later := active(1, "new")
	later.Generation = 5
	beside := &v1alpha1.WorkloadStatus{Generation: 4, Strategy: v1alpha1.StrategySuccessive}
	laterBeside := &v1alpha1.WorkloadStatus{Generation: 5, Strategy: v1alpha1.StrategySuccessive}
	laterInPlace := &v1alpha1.WorkloadStatus{Generation: 5}
	// to is a rollout in which the steps up to this one are done.
	to := func(target, from *v1alpha1.BackendContent, at string) *v1alpha1.RolloutStatus {
		rollout, state := &v1alpha1.RolloutStatus{ID: "1", Target: *target, From: from}, v1alpha1.StepDone
		for _, name := range []string{"Proxies", "Candidate", "Check", "Acknowledge", "Drain", "Teardown"} {
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
	const (
		waits  = "the backend is of other content, and no rollout is to this one"
		notYet = "the rollout has not come to the backend yet"
	)
	for name, tc := range map[string]placed{
		"no pointer": {nil, nil, "mine in 1", nil},
		"no pointer, whatever a rollout says": {
			nil, to(in(2, "mine"), in(1, "old"), "Candidate"), "mine in 1", beside,
		},
		"mine is active":         {active(1, "mine"), nil, "mine in 1", nil},
		"mine is, as it came up": {active(1, "mine"), nil, "mine in 1", beside},
		"mine is, in the other":  {active(2, "mine"), nil, "mine in 2", nil},
		"mine is, a newer waits": {active(1, "mine"), nil, "mine in 1", laterBeside},
		"mine is, a newer is tried": {
			active(1, "mine"), to(in(2, "new"), in(1, "mine"), "Candidate"),
			"mine in 1", laterBeside,
		},
		"mine waits for a rollout": {active(1, "old"), nil, waits + ", old serves; old in 1", beside},
		"mine is to be tried, after the proxies": {
			active(1, "old"), to(in(2, "mine"), in(1, "old"), "Proxies"), notYet + ", old serves; old in 1", beside,
		},
		"mine is tried": {
			active(1, "old"), to(in(2, "mine"), in(1, "old"), "Candidate"),
			"mine in 2 as candidate, old serves; old in 1", beside,
		},
		"mine is tried, the other way": {
			active(2, "old"), to(in(1, "mine"), in(2, "old"), "Candidate"),
			"mine in 1 as candidate, old serves; old in 2", beside,
		},
		"mine is tried, a new proxy is claimed": {
			active(1, "old"), to(in(2, "mine"), in(1, "old"), "Candidate"),
			"mine in 2 as candidate, old serves; old in 1", laterBeside,
		},
		"mine has failed": {
			active(1, "old"), failed,
			"mine in 2 as candidate, old serves; old in 1", beside,
		},
		"mine waits for the switch": {
			active(1, "old"), to(in(2, "mine"), in(1, "old"), "Check"),
			"mine in 2 as candidate, old serves; old in 1", beside,
		},
		"mine has taken over": {
			active(2, "mine"), to(in(2, "mine"), in(1, "old"), "Acknowledge"),
			"mine in 2; old in 1", beside,
		},
		"the old one drains": {active(2, "mine"), to(in(2, "mine"), in(1, "old"), "Drain"), "mine in 2; old in 1", beside},
		"the old one goes":   {active(2, "mine"), to(in(2, "mine"), nil, "Teardown"), "mine in 2", beside},
		"the old one drains, a newer is claimed": {
			active(2, "mine"), to(in(2, "mine"), in(1, "old"), "Drain"),
			"mine in 2; old in 1", laterBeside,
		},
		"mine waits while another drains": {
			active(2, "new"), to(in(2, "new"), in(1, "old"), "Drain"), waits + ", new serves; new in 2; old in 1", beside,
		},
		"mine is to replace what has taken over": {
			active(2, "new"), to(in(2, "new"), in(1, "old"), "Drain"), "mine in 2; old in 1", nil,
		},
		"mine drains, and is asked for again": {
			active(2, "new"), to(in(2, "new"), in(1, "mine"), "Drain"),
			"mine in 1, new serves; new in 2", beside,
		},
		"mine drains": {
			active(2, "new"), to(in(2, "new"), in(1, "mine"), "Drain"), "mine in 1, new serves", laterBeside,
		},
		"a third one is tried": {
			active(1, "old"), to(in(2, "new"), in(1, "old"), "Candidate"), waits + ", old serves; old in 1", beside,
		},
		"a third one is, and mine was before": {
			active(1, "old"), to(in(2, "new"), in(1, "old"), "Candidate"), waits + ", old serves", laterBeside,
		},
		"mine is to replace another in its place":   {active(1, "old"), nil, "mine in 1", nil},
		"another is to replace mine in its place":   {later, nil, "mine in 1", laterInPlace},
		"another is to come up beside what mine is": {active(1, "old"), nil, waits + ", old serves", laterBeside},
		"mine came to nothing, another is to replace the old in its place": {
			active(1, "old"), nil, "the backend is of earlier content, and later content is to replace it, old serves",
			laterInPlace,
		},
		"another is to replace mine beside it": {
			later, to(in(2, "newer"), in(1, "new"), "Candidate"), waits + ", new serves; new in 1", beside,
		},
		"a rollout without steps": {
			active(1, "old"), &v1alpha1.RolloutStatus{Target: *in(2, "mine")}, notYet + ", old serves; old in 1", beside,
		},
		"a rollout over what gets the calls": {
			active(1, "old"), to(in(1, "mine"), in(1, "old"), "Candidate"),
			"the rollout is to the slot of the content that gets the calls, old serves; old in 1", beside,
		},
		"what drains is in the slot of what took over": {
			active(2, "mine"), to(in(2, "mine"), in(2, "old"), "Drain"),
			"mine in 2", beside,
		},
	} {
		status := v1alpha1.MCPServerStatus{Active: tc.active, Rollout: tc.rollout}
		if status.Workload = tc.claim; tc.claim == nil {
			status.Workload = &v1alpha1.WorkloadStatus{Generation: 4}
		}
		p := placementOf(status, run)
		got := []string{p.why}
		if p.own != 0 {
			got = []string{fmt.Sprintf("mine in %d", p.own)}
			if p.rollout != "" {
				got[0] += " as candidate"
			}
		}
		if p.serves != nil {
			got[0] += ", " + p.serves.Hash + " serves"
		}
		for _, content := range p.kept {
			got = append(got, fmt.Sprintf("%s in %d", content.Hash, content.Slot))
		}
		if got := strings.Join(got, "; "); got != tc.want || p.own == 0 && p.why == "" {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
