package gate

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/test/kit"
)

// plant is a fault that is put between a runner and its surroundings. The zero
// plant is none.
type plant struct {
	// wire changes what is sent.
	wire func(request)
	// eyes changes what is read.
	eyes func(*process, client.Object)
	// ears changes what the process finds in its environment.
	ears func(*backend.Runner)
	// deaf keeps SIGTERM from the pass.
	deaf bool
	// from is how many runs of the test's own seed are known to find nothing. Where other code moves
	// the find, the search is longer, and finds it all the same.
	from int
	// want is the rule that ends the run once it is broken; none where it is empty.
	want rule
}

func (f plant) change(r request) {
	if f.wire != nil {
		f.wire(r)
	}
}

func (f plant) disguise(a *process, o client.Object) {
	if f.eyes != nil {
		f.eyes(a, o)
	}
}

func (f plant) environment(r *backend.Runner) {
	if f.ears != nil {
		f.ears(r)
	}
}

func (f plant) context(ctx context.Context) context.Context {
	if f.deaf {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// birthVersion is what a birth carries.
const birthVersion = "1"

func without(version func(string) bool) func(request) {
	return func(r request) {
		if version(r.GetResourceVersion()) {
			unstructured.RemoveNestedField(r.Object, "metadata", "resourceVersion")
		}
	}
}

// sameNumber makes every content under our number look like ours.
func sameNumber(a *process, o client.Object) {
	annotations := o.GetAnnotations()
	if rev, err := revision.Of(annotations); err == nil && rev.Generation == a.revision().Generation {
		annotations[revision.AnnotationHash] = a.revision().Hash
	}
}

// fallBack takes the revision from the file where the environment has none.
func fallBack(r *backend.Runner) {
	if r.EnvErr != nil {
		r.Env = revision.Revision{Generation: r.Run.Workload.Generation, Hash: r.Run.Workload.Hash}
		r.EnvErr = nil
	}
}

// search is in how many runs a planted fault is looked for. The rarest is found
// in every tenth run or so: chance must not decide whether this test passes.
const search = 1000

func TestEachPlantedFaultIsFound(t *testing.T) {
	seed := kit.Seed(t)
	for name, tc := range map[string]struct {
		plant plant
		want  rule
	}{
		"births without their version":          {plant{wire: without(func(v string) bool { return v == birthVersion }), from: 11}, rolledBack},
		"a gate without resourceVersion":        {plant{wire: without(func(v string) bool { return v != birthVersion }), from: 19}, rolledBack},
		"a gate on the number without the hash": {plant{eyes: sameNumber, from: 2}, clobbered},
		"fallback to the file":                  {plant{ears: fallBack}, unsoundWrote},
		"writes after SIGTERM":                  {plant{deaf: true, from: 16}, wroteAfterTerm},
		"the number in the pod template": {plant{wire: func(r request) {
			if r.GetKind() == "StatefulSet" {
				number := r.GetAnnotations()[revision.AnnotationGeneration]
				_ = unstructured.SetNestedField(r.Object, number, "spec", "template", "metadata", "annotations", revision.AnnotationGeneration)
			}
		}}, replaced},
		"replicas that are stated": {plant{wire: func(r request) {
			if r.GetKind() == "StatefulSet" {
				_ = unstructured.SetNestedField(r.Object, int64(1), "spec", "replicas")
			}
		}}, statedReplicas},
	} {
		t.Run(name, func(t *testing.T) {
			tc.plant.want = tc.want
			for i := tc.plant.from; i < tc.plant.from+search; i++ {
				if runScenario(t, seed+uint64(i), tc.plant).checker.violated(tc.want) {
					t.Logf("found in run %d", i+1)
					return
				}
			}
			t.Errorf("FREEHOLD_SEED=%d: in %d runs nobody saw that %s", seed, search, tc.want)
		})
	}
}
