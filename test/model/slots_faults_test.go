package model

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// forgetsPointer is an API server that lets go which content gets the calls, as one without the rules of the schema.
func forgetsPointer(o *operation) {
	if o.Manager == string(contract.MCPServerPlan) {
		unstructured.RemoveNestedField(o.answer.Object, "status", "active")
	}
}

// switchesEarly gives the calls to the target of a rollout once its pods are to be checked.
func switchesEarly(_ *scenario, o *operation) {
	if o.Verb != "apply" || o.Manager != string(contract.MCPServerPlan) {
		return
	}
	content := o.content.DeepCopy().Object
	target, found, _ := unstructured.NestedMap(content, "status", "rollout", "target")
	steps, _, _ := unstructured.NestedSlice(content, "status", "rollout", "steps")
	if !found || len(steps) < 3 || steps[2].(map[string]any)["state"] != string(v1alpha1.StepActive) {
		return
	}
	for field, value := range target {
		_ = unstructured.SetNestedField(content, value, "status", "active", field)
	}
	o.replace(content)
}

// writesInPlace is a runner that does not see that its content is to come up beside other content.
func writesInPlace(_ *process, o client.Object) {
	if server, is := o.(*v1alpha1.MCPServer); is && server.Status.Workload != nil {
		server.Status.Workload.Strategy, server.Status.Rollout = "", nil
	}
}

// plantedInRollouts are the faults that are planted in runs of rollouts, each with the rule that finds it.
var plantedInRollouts = map[string]struct {
	plant plant
	want  rule
}{
	"a pointer that is left out":        {plant{memory: forgetsPointer}, pointerLost},
	"a switch before the check":         {plant{wire: switchesEarly}, unproven},
	"content beside that goes in place": {plant{eyes: writesInPlace}, robbed},
	"no answer taken for yes":           {plant{trusting: true}, sessionsLost},
}

func TestEachFaultPlantedInRolloutsIsFound(t *testing.T) {
	for name, tc := range plantedInRollouts {
		t.Run(name, func(t *testing.T) { find(t, besides, tc.plant, tc.want) })
	}
	if kit.Exploring() { // it takes tens of runs: the sessions that it ends are found sooner
		t.Run("teardown before acknowledgement", func(t *testing.T) { find(t, besides, plant{trusting: true}, tornDown) })
	}
}
