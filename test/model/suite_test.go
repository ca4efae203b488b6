// Package model looks for an order of events in which a field gets another owner than the contract says.
//
// Each run makes one server up from a seed and lets everybody at it who may meet it in a cluster: two operators that
// each believe to lead, runners of its proxies, and foreign writers of every kind, which apply, apply by force, read
// and put, patch, scale, write status, delete, and make anew what was deleted under the same name. All of them write to
// a real API server, one request at a time: before every request a process of ours waits until the schedule, made from
// the same seed, lets it go on. Its cache lags, it is killed, and its requests are refused with 409, 429 and 500, or
// carried out without an answer.
//
// The chart's policies and roles are installed, and each process of ours is who it is in a cluster: the operator
// impersonates its controllers, the runner has the Role that the operator made and that others may delete or change.
// Policies refuse others what they forbid, and nobody refuses us anything.
//
// Other runs are of runners only, two to four of different age, with generation, environment
// and file varied independently: one of them may break the gate, roll a backend back, write
// what it must not, or leave the wrong content standing. There no policy is in force.
//
// Still others are of rollouts: two operators, the runners of four pods, and clients with calls and sessions. Content
// comes up beside what serves, is checked, held, approved, fails, gets the calls and is undone, while processes are
// killed and proxies read no status for a while. What serves is never without its pods or its pointer, content gets
// calls once it has proven itself, and goes when its sessions have ended.
//
// Whatever the API server takes is repeated on its own field manager in process
// as well, which says who must own what afterwards.
//
// scenario_test.go is one run, process_test.go are our processes, cache_test.go what they see, foreign_test.go the
// others, edit_test.go how those change a field, wire_test.go is where all requests pass, rights_test.go has who may do
// what, oracle_test.go what must come of it, checks_test.go and rest_test.go have the invariants, world_test.go knows
// what stands, gate_test.go are the runs of runners only, gate_checks_test.go has their invariants, slots_test.go are
// those of rollouts, slots_checks_test.go has theirs, and faults_test.go and slots_faults_test.go plant what they must
// find.
//
// FREEHOLD_SEED replays the run of a seed; FREEHOLD_MODEL_OPS sets how many
// writes there are at least, FREEHOLD_GATE_RUNS how many runs of runners only, and FREEHOLD_ROLLOUT_RUNS
// how many of rollouts.
package model

import (
	"context"
	"testing"

	"github.com/freehold-dev/freehold/test/kit"
)

// defaultOperations is how many writes there are at least unless FREEHOLD_MODEL_OPS says so.
const defaultOperations = 2000

// plane is the API server of all runs.
var plane *kit.Plane

func TestMain(m *testing.M) {
	kit.Main(m, &plane, func(ctx context.Context, _ string) error { return plane.Install(ctx) }, kit.Alone())
}
