package model

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/test/kit"
)

// plant is a fault that is put between our processes and the API server. The zero plant is none.
type plant struct {
	// wire changes what is sent.
	wire func(*scenario, *operation)
	// memory changes what the API server notes of owners.
	memory func(*operation)
	// eyes changes what a runner reads, and ears what it finds in its environment.
	eyes func(*process, client.Object)
	ears func(*backend.Runner)
	// deaf keeps SIGTERM from the pass.
	deaf bool
	// trusting takes what no proxy has said for an answer.
	trusting bool
	// blind keeps from the operator who refers to a configuration.
	blind bool
	// from is how many runs of the test's own seed are known to find nothing. Where other code moves
	// the find, the search is longer, and finds it all the same.
	from int
	// want is the rule that ends the run once it is broken; none where it is empty.
	want rule
}

func (f plant) change(p *scenario, o *operation) {
	if f.wire != nil {
		f.wire(p, o)
	}
}

func (f plant) answered(o *operation) {
	if f.memory != nil && o.answer != nil {
		f.memory(o)
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

// without leaves a precondition out where it stands for what is planted.
func without(field string, where func(*operation) bool) func(*scenario, *operation) {
	return func(_ *scenario, o *operation) {
		if o.Verb == "apply" && where(o) {
			content := o.content.DeepCopy().Object
			unstructured.RemoveNestedField(content, "metadata", field)
			o.replace(content)
		}
	}
}

func isBirth(o *operation) bool { return o.content.GetResourceVersion() == birthVersion }
func isClaim(o *operation) bool { return o.Manager == string(contract.MCPServerWorkload) }
func isGate(o *operation) bool {
	gated := o.Manager == string(contract.MCPServerChildren) || o.Manager == string(contract.RunnerBackend)
	return gated && !isBirth(o)
}
func always(*operation) bool { return true }

func isNoBirth(o *operation) bool {
	return o.by != nil && !isBirth(o)
}

// alsoStates adds a field to what a manager states.
func alsoStates(
	manager ownership.Manager, value func(*scenario, *operation) any, path ...string,
) func(*scenario, *operation) {
	return func(p *scenario, o *operation) {
		if o.Verb != "apply" || o.Manager != string(manager) {
			return
		}
		if v := value(p, o); v != nil {
			content := o.content.DeepCopy().Object
			if err := unstructured.SetNestedField(content, v, path...); err != nil {
				p.broke(err)
			}
			o.replace(content)
		}
	}
}

// mergePatch sends finalizers as a controller does that adds its own to the list it has read, or takes it away.
func mergePatch(_ *scenario, o *operation) {
	if o.by == nil || o.Verb != "apply" || o.Manager != string(contract.MCPServerFinalizer) {
		return
	}
	read := o.by.read(o.of)
	if read == nil {
		return
	}
	finalizers := []any{}
	for _, f := range read.GetFinalizers() {
		if f != contract.Finalizer {
			finalizers = append(finalizers, f)
		}
	}
	if len(o.content.GetFinalizers()) > 0 {
		finalizers = append(finalizers, contract.Finalizer)
	}
	o.media = types.MergePatchType
	o.replace(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
}

// renumbered leads a Service that stands to the backend's pods at spec.port alone.
func renumbered(_ *scenario, o *operation) {
	if o.Verb != "apply" || o.of.kind != contract.Service.Kind || o.Manager != string(contract.RunnerBackend) ||
		o.before == nil {
		return
	}
	content := o.content.DeepCopy().Object
	ports, _, _ := unstructured.NestedSlice(content, "spec", "ports")
	if len(ports) == 2 {
		_ = unstructured.SetNestedSlice(content, ports[1:], "spec", "ports")
		o.replace(content)
	}
}

// unforced yields what is exclusively ours.
func unforced(_ *scenario, o *operation) { o.force = false }

// forgetful notes no owners but the first.
func forgetful(o *operation) {
	if entries := entriesOf(o.answer); len(entries) > 1 {
		o.answer.SetManagedFields(entries[:1])
	}
}

// observed is the generation that stands in the status.
func observed(_ *scenario, o *operation) any {
	if o.before == nil {
		return nil
	}
	generation, _, _ := unstructured.NestedInt64(o.before.Object, "status", "observedGeneration")
	return generation
}

// unimpersonated sends what a controller of the operator writes as the operator.
func unimpersonated(_ *scenario, o *operation) { o.plain = true }

// sameNumber makes every content under the number of a runner look like its own.
func sameNumber(a *process, o client.Object) {
	annotations := o.GetAnnotations()
	if rev, err := revision.Of(annotations); err == nil && rev.Generation == a.revision.Generation {
		annotations[revision.AnnotationHash] = a.revision.Hash
	}
}

// fallBack takes the revision from the file where the environment has none.
func fallBack(r *backend.Runner) {
	if r.EnvErr != nil {
		r.Env = revision.Revision{Generation: r.Run.Workload.Generation, Hash: r.Run.Workload.Hash}
		r.EnvErr = nil
	}
}

// number is the workload generation of a StatefulSet.
func number(_ *scenario, o *operation) any {
	if o.of.kind != contract.StatefulSet.Kind {
		return nil
	}
	return o.content.GetAnnotations()[revision.AnnotationGeneration]
}

// one is the replicas of a StatefulSet.
func one(_ *scenario, o *operation) any {
	if o.of.kind != contract.StatefulSet.Kind {
		return nil
	}
	return int64(1)
}

// ours is the value of a foreign field.
func ours(*scenario, *operation) any { return "ours" }

// search is in how many runs a planted fault is looked for. The rarest is found
// in every tenth run or so: chance must not decide whether this test passes.
const search = 400

// planted are the faults that are planted, each with the rule that finds it.
var planted = map[string]struct {
	plant plant
	want  rule
	// refused says that policies refuse it, before it can do what want is about.
	refused bool
}{
	"no uid":                         {plant{wire: without("uid", always), from: 8}, resurrected, false},
	"births without their version":   {plant{wire: without("resourceVersion", isBirth), from: 18}, clobbered, false},
	"a claim without its version":    {plant{wire: without("resourceVersion", isClaim), from: 4}, unseen, false},
	"a gate without its version":     {plant{wire: without("resourceVersion", isGate), from: 6}, unseen, false},
	"exclusive fields without force": {plant{wire: unforced, from: 3}, lostField, false},
	"a port that the spec renumbers": {plant{wire: renumbered}, uncallable, false},
	"an API server that forgets":     {plant{memory: forgetful}, mispredicted, false},
	"a controller as its process":    {plant{wire: unimpersonated}, byRole, false},
	"an index that finds nobody":     {plant{blind: true, from: 1}, wrongCount, false},
	"a configuration nobody holds":   {plant{blind: true}, wrongHold, false},
	"a finalizer by merge patch":     {plant{wire: mergePatch}, foreignChanged, true},
	"an Update entry of ours":        {plant{wire: mergePatch}, strayed, true},
	"force outside of the grant": {
		plant{wire: alsoStates(contract.MCPServerChildren, ours, "metadata", "labels", team), from: 5}, foreignChanged, true,
	},
	"a field beside the intent": {
		plant{wire: alsoStates(contract.MCPServerChildren, ours, "metadata", "labels", "ours")}, needless, true,
	},
	"a release that keeps a field": {
		plant{wire: alsoStates(contract.MCPServerChildren, ours, "metadata", "labels", "ours")}, leftBehind, true,
	},
	"one scalar of two managers": {
		plant{wire: alsoStates(contract.MCPServerAddress, observed, "status", "observedGeneration")}, sharedField, true,
	},
}

// plantedInRunners are those that are planted in runs of runners only.
var plantedInRunners = map[string]struct {
	plant plant
	want  rule
}{
	"births without their version":          {plant{wire: without("resourceVersion", isBirth), from: 78}, rolledBack},
	"a gate without resourceVersion":        {plant{wire: without("resourceVersion", isNoBirth)}, rolledBack},
	"a gate on the number without the hash": {plant{eyes: sameNumber, from: 5}, overwritten},
	"fallback to the file":                  {plant{ears: fallBack, from: 3}, unsoundWrote},
	"writes after SIGTERM":                  {plant{deaf: true}, wroteAfterTerm},
	"the number in the pod template": {plant{wire: alsoStates(contract.RunnerBackend, number,
		"spec", "template", "metadata", "annotations", revision.AnnotationGeneration)}, replaced},
	"replicas that are stated": {plant{wire: alsoStates(contract.RunnerBackend, one, "spec", "replicas")}, statedReplicas},
}

func TestEachPlantedFaultIsFound(t *testing.T) {
	for name, tc := range planted {
		if tc.refused {
			tc.want = byPolicy
		}
		t.Run(name, func(t *testing.T) { find(t, everybody, tc.plant, tc.want) })
	}
}

// What policies refuse is found without them as well: the rules of the checker are not there for nothing.
func TestEachPlantedFaultIsFoundWithoutPolicies(t *testing.T) {
	withoutPolicies(t, func(t *testing.T) {
		t.Run("no policies", func(t *testing.T) { find(t, everybody, plant{}, letThrough) })
		for name, tc := range planted {
			if tc.refused {
				t.Run(name, func(t *testing.T) { find(t, everybody, tc.plant, tc.want) })
			}
		}
		for name, tc := range plantedInRunners {
			t.Run("runners only, "+name, func(t *testing.T) { find(t, runnersOnly, tc.plant, tc.want) })
		}
	})
}

// withoutPolicies runs a test while no policy is in force, and puts them in force again however it ends.
func withoutPolicies(t *testing.T, do func(*testing.T)) {
	t.Helper()
	if err := plane.WithoutPolicies(t.Context(), func() { t.Run("without policies", do) }); err != nil {
		t.Fatal(err)
	}
}

// find looks for a fault in runs of its own.
func find(t *testing.T, mode mode, plant plant, want rule) {
	t.Helper()
	seed := kit.Seed(t)
	plant.want = want
	for i := plant.from; i < plant.from+search; i++ {
		if runScenario(t, seed+uint64(i), mode, plant).checker.violated(want) {
			t.Logf("found in run %d", i+1)
			return
		}
	}
	t.Errorf("FREEHOLD_SEED=%d: in %d runs nobody saw that %s", seed, search, want)
}
