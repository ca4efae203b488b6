package mcpserver

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/render"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

func reads(text string) frame.Set {
	return registry.Read(&v1alpha1.MCPAuthzConfig{
		Spec: v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{{Name: "a", Policy: text}}},
	})
}

const (
	all     = "permit(principal, action, resource);"
	nothing = "forbid(principal, action, resource);"
)

// guarded is a server that runs with all, of a configuration that now says nothing
// is allowed, and the phase and admission that are observed of it.
func guarded(t *testing.T, phase rollout.Phase, admitted bool) (*v1alpha1.MCPServer, world) {
	t.Helper()
	server := echo()
	server.Spec.AuthzConfigRef = &v1alpha1.LocalReference{Name: "team"}
	had := reads(all)
	rendered := workload.Render(workload.Input{Object: server, Configs: had}, options)
	rev := revision.Revision{Generation: 3, Hash: rendered.Hash}
	server.Status.Workload = &v1alpha1.WorkloadStatus{
		SessionSecret: "made",
		Generation:    rev.Generation, Hash: rev.Hash, OwnHash: rendered.OwnHash,
		Configs: []v1alpha1.WorkloadConfig{named("MCPAuthzConfig", "team", had[0].Verdict.Hash)},
	}
	server.Status.URL = "http://old"
	runs := map[string]string{workload.AnnotationBackendHash: rendered.Content.Rendering.Backend}
	w := world{
		Proxy: proxyOf(rev), Backend: backendOf(rev),
		RunConfigs: []metav1.PartialObjectMetadata{config(rev)},
		Pods:       []corev1.Pod{pod("proxy", workload.ComponentProxy, rev), pod("backend", workload.ComponentBackend, rev)},
	}
	for _, annotations := range []map[string]string{w.Backend.Spec.Template.Annotations, w.Pods[1].Annotations} {
		for key, value := range runs {
			annotations[key] = value
		}
	}
	w.Proxy.Spec.Template.Annotations["freehold.dev/guards"] = "authorization"
	w.Pods[0].Annotations["freehold.dev/guards"] = "authorization"
	w.Proxy.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: string(contract.MCPServerChildren), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1",
		FieldsType: "FieldsV1",
		FieldsV1:   metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:serviceAccountName":{}}}}}`),
	}}
	refers(server, &w, nothing)
	w.Configs.Turns = []rollout.Turn{
		{WorkloadConfig: named("MCPAuthzConfig", "team", w.Configs.Refs[0].Verdict.Hash), Phase: phase, Admitted: admitted},
	}
	w.Configs.Ran = &rendered.Content
	return server, w
}

// refers has a server refer to policies.
func refers(server *v1alpha1.MCPServer, w *world, text string) {
	w.Configs.Refs = registry.Bind(&server.Spec, reads(text))
}

// runsWith is what runs with these policies.
func runsWith(text string) (proxy runconfig.Proxy) {
	reads(text)[0].AddTo(&proxy, frame.Referrer{})
	return proxy
}

// What comes of a server: it keeps what runs, changes with the configuration that it has, or takes the present one.
const keeps, changes, takes, takesInTurn = "keeps", "changes", "takes", "takes in turn"

func TestAServerTakesAChangedConfigurationInItsTurn(t *testing.T) {
	image := func(s *v1alpha1.MCPServer, _ *world) { s.Spec.Image = "other" }
	for name, tc := range map[string]struct {
		phase    rollout.Phase
		admitted bool
		edit     func(*v1alpha1.MCPServer, *world)
		want     string
	}{
		"not its turn":   {rollout.Waiting, false, nil, keeps},
		"it is down":     {rollout.Down, false, nil, keeps},
		"its turn":       {rollout.Waiting, true, nil, takesInTurn},
		"again":          {rollout.Again, true, nil, takesInTurn},
		"not in turns":   {rollout.Apart, true, nil, takes},
		"its own change": {rollout.Waiting, false, image, changes},
		"its own change, and what it has cannot be told": {rollout.Waiting, false, func(s *v1alpha1.MCPServer, w *world) {
			s.Spec.Image, w.Configs.Ran = "other", &runconfig.RunConfig{}
		}, keeps},
		"its own change, and somebody wrote other policies into what runs": {
			rollout.Waiting, false,
			func(s *v1alpha1.MCPServer, w *world) {
				s.Spec.Image, w.Configs.Ran = "other", &runconfig.RunConfig{Proxy: runsWith(nothing)}
			}, keeps,
		},
		"its own change in its turn": {rollout.Waiting, true, image, takesInTurn},
		"another release": {
			rollout.Waiting, false,
			func(s *v1alpha1.MCPServer, _ *world) { s.Status.Workload.OwnHash = "old" }, changes,
		},
		"its proxy is gone": {
			rollout.Waiting, false,
			func(_ *v1alpha1.MCPServer, w *world) { w.Proxy, w.Configs.Ran = nil, nil }, takesInTurn,
		},
		"its run config is gone": {
			rollout.Waiting, false,
			func(_ *v1alpha1.MCPServer, w *world) { w.RunConfigs, w.Configs.Ran = nil, nil }, takesInTurn,
		},
		"its proxy is of older days": {
			rollout.Waiting, false,
			func(_ *v1alpha1.MCPServer, w *world) { w.Proxy = proxyOf(older) }, changes,
		},
		"nothing changes for it": {
			rollout.Waiting, false, func(s *v1alpha1.MCPServer, w *world) { refers(s, w, all) },
			takes,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, w := guarded(t, tc.phase, tc.admitted)
			if tc.edit != nil {
				tc.edit(server, &w)
			}
			s := snapshot.Of(server, w, noon)
			made := planWith(s, options)
			v := made.Verdict
			if waits := v.WaitsFor != nil; waits != (tc.want == keeps || tc.want == changes) || len(v.Problems) > 0 ||
				(made.Phase == plan.WaitingForConfig) != (tc.want == keeps) {
				t.Fatalf("waits: %t, %s; problems %v", waits, made.Phase, v.Problems)
			}
			if tc.want == keeps {
				if kept := actions[plan.ApplyProxy](made); len(kept) != 1 || kept[0].Kept == nil || kept[0].Replicas != 1 ||
					made.Target != s.Proxy().Revision {
					t.Errorf("what stands is not kept: %+v", made)
				}
				return
			}
			claim := made.Claim
			hash := w.Configs.Turns[0].Hash
			if tc.want == changes {
				hash = reads(all)[0].Verdict.Hash
			}
			inTurn := claim.Configs[0].InTurn
			if len(claim.Configs) != 1 || claim.Configs[0].Hash != hash || claim.OwnHash == "" ||
				inTurn != (tc.want == takesInTurn) {
				t.Errorf("the claim records %+v", claim)
			}
		})
	}
}

// Ready never says that the new policy holds where the old one does.
func TestAServerThatWaitsIsNotReady(t *testing.T) {
	trouble := func(s *scene) {
		s.world.Pods[1] = waiting(s.world.Pods[1], "ImagePullBackOff", "")
		s.world.Proxy.Status.AvailableReplicas = 0
	}
	for name, tc := range map[string]struct {
		admitted     bool
		edit         func(*scene)
		reason, says string
	}{
		"it serves":        {false, func(*scene) {}, v1alpha1.ReasonRolloutPending, `MCPAuthzConfig "team" has changed`},
		"it is in trouble": {false, trouble, v1alpha1.ReasonImagePull, ""},
		"its claim was refused": {false, func(s *scene) {
			s.world.Configs.Turns[0].Phase = rollout.Blocked
			said(v1alpha1.ReasonApplyFailed)(s)
		}, v1alpha1.ReasonApplyFailed, ""},
		// Else it would not count among those under way, however many there are.
		"its turn, and a pod of it is in trouble": {true, trouble, v1alpha1.ReasonUpdating, ""},
		"its turn, after it waited":               {true, said(v1alpha1.ReasonRolloutPending), v1alpha1.ReasonUpdating, ""},
	} {
		server, w := guarded(t, rollout.Waiting, tc.admitted)
		s := scene{server: server, world: w}
		said(v1alpha1.ReasonReady)(&s)
		tc.edit(&s)
		answered(metav1.ConditionTrue, "Answers", "")(&s)
		server.Status.Runtime = &v1alpha1.RuntimeStatus{Generation: 3, ServerUID: "uid"}
		made := planWith(s.snap(), options)
		found := report.Conditions(s.snap(), made, nil, nil)
		f := found[v1alpha1.ConditionReady]
		if f.Status != metav1.ConditionFalse || f.Reason != tc.reason || !strings.Contains(f.Message, tc.says) {
			t.Errorf("%s: Ready is %v, want False because of %s", name, f, tc.reason)
		}
		if tc.reason == v1alpha1.ReasonRolloutPending && found[v1alpha1.ConditionReconciling].Reason != f.Reason {
			t.Errorf("%s: it says %v", name, found)
		}
	}
}

// What another server holds up is no reason to give up.
func TestNobodyIsStalledBecauseItWaitsForItsTurn(t *testing.T) {
	s := up(said(v1alpha1.ReasonRolloutPending),
		condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRolloutPending, ""))
	s.server.Status.Conditions[1].ObservedGeneration = s.server.Generation
	late := noon.AddDate(1, 0, 0)
	if kind := moves(s.at(late), v1alpha1.ReasonRolloutPending); kind != v1alpha1.ConditionReconciling {
		t.Errorf("after a year it is %s", kind)
	}
	if due := waitFor(v1alpha1.ReasonRolloutPending).Deadline(s.at(late)); due != 0 {
		t.Errorf("it is looked at again after %s", due)
	}
}

// What a claim records beside its number is written once it differs, each part of it.
func TestARecordIsWrittenOnceItDiffers(t *testing.T) {
	release := options
	release.Objects = podtemplate.ObjectDefaults{Annotations: map[string]string{"a": "b"}, InheritLabels: []string{"team"}}
	config := named("MCPAuthzConfig", "team", "h")
	recorded := v1alpha1.WorkloadStatus{
		Generation: current.Generation, Hash: current.Hash, OwnHash: "own", BackendHash: "backend", BridgeImage: "runner:1",
		SessionSecret: "made", BridgeImages: map[string]string{"other": "runner:0"},
		Configs: []v1alpha1.WorkloadConfig{config}, Labels: map[string]string{"team": "blue"},
		Annotations: map[string]string{"a": "b"},
	}
	made := func(object kinds.Object, status v1alpha1.WorkloadStatus) plan.Plan {
		switch o := object.(type) {
		case *v1alpha1.MCPServer:
			o.Status.Workload = &status
		case *v1alpha1.MCPRemoteProxy:
			o.Status.Workload = &status
		}
		object.SetLabels(map[string]string{"team": "blue"})
		w := world{Configs: snapshot.Configs{
			Turns: []rollout.Turn{{WorkloadConfig: config, Phase: rollout.Done, Admitted: true}},
		}}
		digest := render.Digest{
			Key: "k", Hash: current.Hash, OwnHash: "own", Backend: "backend", BridgeImage: "runner:1",
			SessionSecret: "made",
		}
		return plan.Make(snapshot.Of(object, w, noon), render.Digests{Present: digest}, release)
	}
	for what, edit := range map[string]func(*v1alpha1.WorkloadStatus){
		"":                      func(*v1alpha1.WorkloadStatus) {},
		"the own hash":          func(s *v1alpha1.WorkloadStatus) { s.OwnHash = "x" },
		"a configuration":       func(s *v1alpha1.WorkloadStatus) { s.Configs = nil },
		"the backend":           func(s *v1alpha1.WorkloadStatus) { s.BackendHash = "x" },
		"the image of a bridge": func(s *v1alpha1.WorkloadStatus) { s.BridgeImage = "x" },
		"the Secret":            func(s *v1alpha1.WorkloadStatus) { s.SessionSecret = "x" },
		"a label":               func(s *v1alpha1.WorkloadStatus) { s.Labels = map[string]string{"team": "green"} },
		"an annotation":         func(s *v1alpha1.WorkloadStatus) { s.Annotations = nil },
	} {
		status := recorded
		edit(&status)
		differs := made(echo(), status)
		written := actions[plan.WriteClaim](differs)
		if (len(written) > 0) != (what != "") || len(written) > 0 && !written[0].Record {
			t.Errorf("with another %q it writes %v", what, written)
		}
		if told := strings.Contains(steps(differs.Steps), "if refused Report"); told != (what != "") {
			t.Errorf("with another %q that is refused, it is told: %t", what, told)
		}
	}
	claim := made(echo(), recorded).Claim
	if claim.Labels["team"] != "blue" || claim.Annotations["a"] != "b" || claim.BridgeImages["other"] != "runner:0" {
		t.Errorf("the claim says %v, %v, %v", claim.Labels, claim.Annotations, claim.BridgeImages)
	}
	// Then no runner makes objects.
	if claim := made(&v1alpha1.MCPRemoteProxy{}, recorded).Claim; claim.Labels != nil || claim.Annotations != nil {
		t.Errorf("of a server without a backend it says %v, %v", claim.Labels, claim.Annotations)
	}
}
