// Package gate looks for an order of events in which the runners of one server
// break the gate: roll a backend back, write what they must not, or leave the
// wrong content standing.
//
// Each run makes up two to four runners from a seed, with generation,
// environment and file varied independently, and plays them against a real API
// server one request at a time: before every request a runner waits until the
// schedule, made from the same seed, lets it go on. Between requests processes
// are stopped, killed and restarted, objects deleted and tampered with, answers
// lost, and caches left behind.
//
// schedule_test.go lets one runner go at a time, client_test.go is where their
// requests wait, actor_test.go makes runners up, world_test.go knows what
// stands in the API server, judge_test.go has the invariants, play_test.go is
// one run, and faults_test.go plants what the judge must find.
//
// FREEHOLD_SEED replays the run of a seed; FREEHOLD_GATE_RUNS sets their number.
package gate

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/applyconfig"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

// defaultRuns is how many runs there are unless FREEHOLD_GATE_RUNS says so.
const defaultRuns = 200

// kubernetesVersion is the one whose binaries are used where KUBEBUILDER_ASSETS
// is not set.
const kubernetesVersion = "v1.36.3"

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
	root, err := kit.Root()
	if err != nil {
		return 0, err
	}
	assets := cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(root, "bin", "k8s", kubernetesVersion))
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		return 0, fmt.Errorf("kube-apiserver is not in %s: run make controlplane, or set KUBEBUILDER_ASSETS", assets)
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(root, "config", "crd")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
	}
	flags := environment.ControlPlane.GetAPIServer().Configure()
	flags.Set("service-cluster-ip-range", "10.96.0.0/16") // a Service for each run
	flags.Set("enable-priority-and-fairness", "false")
	config, err := environment.Start()
	defer func() { err = errors.Join(err, environment.Stop()) }()
	if err != nil {
		return 0, fmt.Errorf("starting kube-apiserver: %w", err)
	}
	config.QPS = -1
	scheme := kit.Scheme()
	if admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 0, fmt.Errorf("building a client: %w", err)
	}
	converter = apply.NewConverter(scheme, map[string]managedfields.TypeConverter{
		v1alpha1.SchemeGroupVersion.Group: applyconfig.NewTypeConverter(scheme),
	})
	return run(), nil
}

// runsAndSeed are the number of runs and the seed of the first.
func runsAndSeed(t *testing.T) (runs int, seed uint64) {
	t.Helper()
	runs, seed = defaultRuns, rand.Uint64()>>1
	number := func(name string) (uint64, bool) {
		text, set := os.LookupEnv(name)
		n, err := strconv.ParseUint(text, 10, 64)
		if set && err != nil {
			t.Fatalf("%s=%q: write a number", name, text)
		}
		return n, set
	}
	if n, set := number("FREEHOLD_SEED"); set {
		runs, seed = 1, n
	}
	if n, set := number("FREEHOLD_GATE_RUNS"); set {
		runs = int(n)
	}
	return runs, seed
}
