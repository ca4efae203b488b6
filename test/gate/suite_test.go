// Package gate looks for an order of events in which the runners of one server
// break the gate: roll a backend back, write what they must not, or leave the
// wrong content standing.
//
// Each run makes up two to four runners from a seed, with generation,
// environment and file varied independently, and runs them against a real API
// server one request at a time: before every request a runner waits until the
// schedule, made from the same seed, lets it go on. Between requests processes
// are stopped, killed and restarted, objects deleted and tampered with, answers
// lost, and caches left behind.
//
// client_test.go is where the runners' requests wait, process_test.go makes runners
// up, world_test.go knows what stands in the API server, checks_test.go has the
// invariants, scenario_test.go is one run, and faults_test.go plants what the checker
// must find.
//
// FREEHOLD_SEED replays the run of a seed; FREEHOLD_GATE_RUNS sets their number.
package gate

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

// defaultRuns is how many runs there are unless FREEHOLD_GATE_RUNS says so.
const defaultRuns = 50

// The API server of all runs. No pod runs, and what is deleted is gone at once.
var (
	plane     *kit.Plane
	admin     client.Client
	converter *apply.Converter
)

func TestMain(m *testing.M) {
	kit.Main(m, &plane, func(context.Context, string) error {
		admin, converter = plane.Client, controllers.NewConverter(plane.Scheme)
		return nil
	}, kit.Alone())
}
