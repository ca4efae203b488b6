package mcpserver

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/render"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/golden"
)

// other is content that is not claimed.
func other(s *scene) { s.digest.Hash = "other" }

// waitsForConfig lets the server wait for its turn at a configuration.
func waitsForConfig(s *scene) {
	other(s)
	s.digest.OwnHash, s.server.Status.Workload.OwnHash = "own", "own"
	s.world.Configs.Turns = []rollout.Turn{
		{WorkloadConfig: named("MCPAuthzConfig", "team", "h"), Phase: rollout.Waiting},
	}
	s.world.Configs.Ran = &ran
}

// superseded lets another operator claim other content of the same spec.
func superseded(s *scene) {
	other(s)
	s.server.ManagedFields, s.held.Revision = taken().ManagedFields, revision.Revision{Generation: 2, Hash: "other"}
}

func deleted(s *scene) {
	s.server.DeletionTimestamp = new(metav1.NewTime(noon))
	s.stops = snapshot.Stops{Server: noon, Backend: noon}
}

func invalid(s *scene) {
	s.digest.Problems = podtemplate.Problems{{Field: "spec.podTemplate", Message: "no"}}
}

// phases are scenes of each phase, in the order of plan.Phases.
var phases = []struct {
	phase plan.Phase
	when  string
	edits []edit
}{
	{plan.Deleting, "first", []edit{deleted}},
	{
		plan.Deleting, "its proxies are stopped",
		[]edit{deleted, func(s *scene) { s.world.Proxy.Spec.Replicas = new(int32(0)) }},
	},
	{
		plan.Deleting, "its calls have ended",
		[]edit{deleted, func(s *scene) { s.world.Proxy, s.world.Pods = nil, s.world.Pods[1:] }},
	},
	{plan.Deleting, "its backend is gone, and a policy stands before its pods", []edit{deleted, noBackend, func(s *scene) {
		s.world.Proxy, s.world.Pods, s.world.Policy = nil, s.world.Pods[1:], policyOf("uid")
	}}},
	{plan.Deleting, "they have ended", []edit{deleted, noBackend, func(s *scene) {
		s.world.Proxy, s.world.Pods, s.world.Policy = nil, nil, policyOf("uid")
	}}},
	{plan.Invalid, "content runs", []edit{invalid}},
	{
		plan.Invalid, "nothing runs",
		[]edit{invalid, first, func(s *scene) { s.world, s.server.Status.Workload = world{}, nil }},
	},
	{plan.WaitingForConfig, "", []edit{waitsForConfig}},
	{plan.Superseded, "", []edit{superseded, said(v1alpha1.ReasonUpdating)}},
	{plan.LowerReady, "", []edit{other}},
	{plan.Claim, "the first content", []edit{first, func(s *scene) { s.world, s.server.Status.Workload = world{}, nil }}},
	{plan.Claim, "later content", []edit{other, said(v1alpha1.ReasonUpdating)}},
	{plan.Claim, "content that comes up beside what serves", []edit{serves, other}},
	{plan.RollOut, "its plan is not stored", []edit{serves}},
	{plan.RollOut, "it comes up", []edit{serves, stores, candidate}},
	{plan.RollOut, "it waits for an approval", []edit{serves, candidate, lost, stores}},
	{plan.RollOut, "it has failed", []edit{serves, stores, broken, lasts, stores}},
	{plan.RollOut, "", []edit{
		said(v1alpha1.ReasonUpdating),
		func(s *scene) { s.world.Proxy, s.world.Backend = proxyOf(older), backendOf(older) },
	}},
	{plan.RollOut, "a child carries a number that no claim made", []edit{func(s *scene) {
		s.world.Backend = backendOf(revision.Revision{Generation: 9, Hash: "other"})
	}}},
	{plan.Serving, "", nil},
	{plan.Draining, "calls have not ended", []edit{suspended, func(s *scene) { s.stops.Server = noon }}},
	{plan.Draining, "calls have ended", []edit{suspended, func(s *scene) { s.world.Pods = s.world.Pods[1:] }}},
	{plan.Stopped, "", []edit{suspended, gone}},
}

var ran = workload.Render(workload.Input{Object: echo()}, options).Content

// steps are the actions of a plan.
func steps(of []plan.Step) string {
	var names []string
	for _, step := range of {
		name := strings.TrimPrefix(fmt.Sprintf("%T", step.Action), "plan.")
		switch a := step.Action.(type) {
		case plan.Objects:
			name = "Objects(" + steps(a.Steps) + ")"
		case plan.ApplyProxy:
			if a.Kept != nil {
				name = "KeepProxy"
			}
		}
		switch step.When {
		case plan.Unsound:
			name = "else " + name
		case plan.ClaimRefused:
			name = "if refused " + name
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// What a pass does and says in each phase is in docs/architecture.md.
func TestPhases_AreOnThePage(t *testing.T) {
	var page strings.Builder
	page.WriteString("\n| phase | when | does, in this order | says |\n| --- | --- | --- | --- |\n")
	met := map[plan.Phase]bool{}
	for _, row := range phases {
		s := up(row.edits...)
		made := s.plan()
		if made.Phase != row.phase {
			t.Errorf("%s, %s: it is %s", row.phase, row.when, made.Phase)
		}
		met[made.Phase] = true
		does, says := steps(made.Steps), ""
		if strings.Contains(does, "Report") {
			var conditions []string
			found := report.Conditions(s.snap(), made, nil, nil)
			for _, conditionType := range contract.MCPServers().Conditions {
				if f, is := found[conditionType]; is {
					conditions = append(conditions, fmt.Sprintf("%s=%s (%s)", conditionType, f.Status, f.Reason))
				}
			}
			says = strings.Join(conditions, ", ")
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", row.phase, row.when, does, says)
	}
	for phase := range plan.Phases {
		if !met[plan.Phase(phase)] {
			t.Errorf("no row is of %s", plan.Phase(phase))
		}
	}
	golden.Part(t, "../../docs/architecture.md", "<!-- generated from controllers/mcpserver/plan -->\n",
		"<!-- end of the phases -->", page.String()+"\n")
}

// The plan of a spec is the same whatever digest it had before: nothing is kept of that.
func TestPlan_ProblemsOfADigestStayWhatTheyAre(t *testing.T) {
	s := up(invalid, func(s *scene) { s.world.Proxy.ManagedFields = nil })
	s.digest.Problems = append(make(podtemplate.Problems, 0, 4), s.digest.Problems...)
	digests := render.Digests{Present: s.digest}
	for range 2 {
		if made := plan.Make(s.snap(), digests, options); len(made.Verdict.Problems) != 2 ||
			len(digests.Present.Problems) != 1 {
			t.Fatalf("it has %v of %v", made.Verdict.Problems, digests.Present.Problems)
		}
	}
}
