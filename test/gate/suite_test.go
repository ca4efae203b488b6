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
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

// defaultRuns is how many runs there are unless FREEHOLD_GATE_RUNS says so.
const defaultRuns = 50

// The API server of all runs.
var (
	admin     client.Client
	converter *apply.Converter
)

func TestMain(m *testing.M) {
	code, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withServer runs tests beside a kube-apiserver. Nothing else is needed: no
// pod runs, and what is deleted is gone at once.
func withServer(run func() int) (code int, err error) {
	log.SetLogger(logr.Discard())
	plane, err := kit.Start(context.Background(), kit.Alone())
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if err != nil {
		return 0, err
	}
	admin, converter = plane.Client, controllers.NewConverter(plane.Scheme)
	return run(), nil
}
