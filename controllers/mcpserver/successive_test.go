package mcpserver

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/mcpserver/successive"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// asks asks for content beside what serves.
func asks(s *scene) {
	s.digest.Strategy, s.server.Spec.Rollout = v1alpha1.StrategySuccessive, &v1alpha1.RolloutSpec{}
}

// inPlace is content that goes in the place of what serves by default.
func inPlace(s *scene) { s.digest.Strategy = v1alpha1.StrategyReplace }

// replaces asks for content in the place of what serves.
func replaces(s *scene) {
	inPlace(s)
	s.server.Spec.Rollout = &v1alpha1.RolloutSpec{Strategy: v1alpha1.StrategyReplace}
}

// serves is a server that serves content of older in slot 1, and asks for current, which is claimed to come beside.
func serves(s *scene) {
	asks(s)
	s.server.Status.Active = &v1alpha1.ActiveBackend{BackendContent: v1alpha1.BackendContent{
		Slot: 1, Hash: digestOf(older).Backend, Generation: 2, Port: 8080, Path: "/mcp",
		Transport: v1alpha1.TransportStreamableHTTP,
	}, Since: metav1.NewTime(noon.Add(-time.Hour))}
	s.server.Status.Workload.Strategy = v1alpha1.StrategySuccessive
	s.world.Backend = backendOf(older)
	s.world.Pods[1] = pod("backend", workload.ComponentBackend, older)
	said(v1alpha1.ReasonUpdating)(s)
}

// stores makes a pass whose plan is stored, as often as it is another one.
func stores(s *scene) {
	for range 10 {
		writes := actions[plan.WritePlan](s.plan())
		if len(writes) != 1 || !writes[0].Ends {
			return
		}
		s.server.Status.Active, s.server.Status.Rollout = writes[0].Active, writes[0].Rollout
		s.server.Status.LastRollout = writes[0].Last
	}
}

// candidate stands in slot 2, and is ready.
func candidate(s *scene) {
	set := backendOf(current)
	s.world.Slot2 = slot2Of(set)
	ready := pod("candidate", workload.ComponentBackend, current)
	ready.Labels = workload.Labels("echo", workload.Slot2.Component())
	ready.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "echo-slot2", Controller: new(true)}}
	s.world.Pods = append(s.world.Pods, ready)
}

func seen(candidate v1alpha1.CandidateStatus) edit {
	return func(s *scene) {
		candidate.Hash = digestOf(current).Backend
		s.server.Status.Runtime.Candidate = &candidate
	}
}

// lost is a candidate that has lost a tool.
var lost = seen(v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}})

func broken(s *scene) {
	candidate(s)
	s.world.Slot2.Set.Status.ReadyReplicas = 0
	last := len(s.world.Pods) - 1
	s.world.Pods[last] = waiting(s.world.Pods[last], "ImagePullBackOff", "not found")
}

// stuck is a pod in slot 2 that has not ended in its grace period.
func stuck(s *scene) {
	left := pod("stuck", workload.ComponentBackend, current)
	left.Labels = workload.Labels("echo", workload.Slot2.Component())
	left.DeletionTimestamp = new(metav1.NewTime(noon.Add(-time.Hour)))
	s.world.Pods = append(s.world.Pods, left)
}

// again is before a claim of a server that has claimed content to come up beside what serves, whose last rollout was to
// content of hash and came to state.
func again(state v1alpha1.RolloutState, hash string) edit {
	return func(s *scene) {
		serves(s)
		s.server.Status.Workload = &v1alpha1.WorkloadStatus{
			Generation: 2, Hash: "bbb", Strategy: v1alpha1.StrategySuccessive,
		}
		s.server.Status.LastRollout = &v1alpha1.RolloutOutcome{State: state, Generation: 2, Attempt: 1, Hash: hash}
	}
}

func noneReady(s *scene) { s.world.Backend.Status.ReadyReplicas, s.world.Pods = 0, s.world.Pods[:1] }

// A claim says whether its content comes up beside what serves.
func TestWhichClaimsAreSuccessive(t *testing.T) {
	unclaimed := func(s *scene) {
		serves(s)
		s.server.Status.Workload = &v1alpha1.WorkloadStatus{Generation: 2, Hash: "bbb"}
	}
	for name, tc := range map[string]struct {
		edits []edit
		want  v1alpha1.RolloutStrategy
	}{
		"new content beside what serves": {[]edit{unclaimed}, v1alpha1.StrategySuccessive},
		"nobody asks for it":             {[]edit{unclaimed, inPlace}, ""},
		"Replace is written":             {[]edit{unclaimed, replaces}, ""},
		"the backend has no ready pod": {[]edit{unclaimed, func(s *scene) {
			s.world.Backend.Status.ReadyReplicas, s.world.Pods = 0, s.world.Pods[:1]
		}}, ""},
		"the backend answers no MCP": {[]edit{
			unclaimed, answered(metav1.ConditionFalse, v1alpha1.ReasonNotMCP, ""),
			func(s *scene) {
				s.server.Status.Workload.BackendHash, s.server.Status.Runtime.Generation = digestOf(older).Backend, 2
			},
		}, ""},
		"the backend has answered, and is busy": {[]edit{
			unclaimed, answered(metav1.ConditionFalse, v1alpha1.ReasonNotAnswering, ""),
			func(s *scene) {
				s.server.Status.Workload.BackendHash, s.server.Status.Runtime.Generation = digestOf(older).Backend, 2
				s.server.Status.Runtime.ProtocolVersions = []string{"2025-11-25"}
			},
		}, v1alpha1.StrategySuccessive},
		"the backend answers no MCP, as runners of other content say": {[]edit{
			unclaimed, unanswering(digestOf(older).Backend),
		}, ""},
		"other content than gets the calls hangs": {[]edit{unclaimed, unanswering("other")}, v1alpha1.StrategySuccessive},
		"the backend has answered, and hangs, as runners of other content say": {[]edit{
			unclaimed, unanswering(digestOf(older).Backend),
			func(s *scene) { s.server.Status.Runtime.ProtocolVersions = []string{"2025-11-25"} },
		}, v1alpha1.StrategySuccessive},
		"other content answers no MCP": {[]edit{
			unclaimed, answered(metav1.ConditionFalse, v1alpha1.ReasonNotMCP, ""),
			func(s *scene) {
				s.server.Status.Workload.BackendHash, s.server.Status.Runtime.Generation = "other", 2
			},
		}, v1alpha1.StrategySuccessive},
		"what stands is not what has the calls": {
			[]edit{unclaimed, func(s *scene) { s.server.Status.Active.Hash = "other" }}, "",
		},
		"the backend is being deleted": {[]edit{unclaimed, func(s *scene) {
			s.world.Backend.DeletionTimestamp = new(metav1.NewTime(noon))
		}}, ""},
		"the same content of the backend": {
			[]edit{unclaimed, func(s *scene) { s.digest.Backend = digestOf(older).Backend }}, "",
		},
		"a suspended server": {[]edit{unclaimed, suspended}, ""},
		"nothing says what has the calls, and other content serves": {
			[]edit{unclaimed, func(s *scene) { s.server.Status.Active = nil }}, v1alpha1.StrategySuccessive,
		},
		"the proxy alone, of content that has failed, and no pod serves just now": {
			[]edit{again(v1alpha1.RolloutFailed, digestOf(current).Backend), noneReady}, v1alpha1.StrategySuccessive,
		},
		"the proxy alone, of content that was held, of a server that is suspended": {
			[]edit{again(v1alpha1.RolloutCancelled, digestOf(current).Backend), suspended}, v1alpha1.StrategySuccessive,
		},
		"the proxy alone, of content that has failed, and Replace is written": {
			[]edit{again(v1alpha1.RolloutFailed, digestOf(current).Backend), replaces}, "",
		},
		"the proxy alone, of content that has failed, and the default is another one by now": {
			[]edit{again(v1alpha1.RolloutFailed, digestOf(current).Backend), inPlace}, v1alpha1.StrategySuccessive,
		},
		"the proxy alone, of content that comes up, and the default is another one by now": {
			[]edit{serves, stores, inPlace, func(s *scene) { s.server.Status.Workload.Hash = "bbb" }},
			v1alpha1.StrategySuccessive,
		},
		"other content than has failed, and no pod serves": {[]edit{again(v1alpha1.RolloutFailed, "other"), noneReady}, ""},
		"content that got the calls once, and no pod serves": {
			[]edit{again(v1alpha1.RolloutSucceeded, digestOf(current).Backend), noneReady}, "",
		},
		"content that has failed, after other content that comes up, and no pod serves": {
			[]edit{again(v1alpha1.RolloutFailed, digestOf(current).Backend), noneReady, func(s *scene) {
				s.server.Status.Rollout = &v1alpha1.RolloutStatus{Target: v1alpha1.BackendContent{Slot: 2, Hash: "other"}}
			}}, "",
		},
		"it was claimed so, and does not serve now": {
			[]edit{serves, func(s *scene) { s.world.Backend = nil }}, v1alpha1.StrategySuccessive,
		},
		"it was claimed so, and is suspended":                      {[]edit{serves, suspended}, v1alpha1.StrategySuccessive},
		"it was claimed so, and Replace is written now":            {[]edit{serves, replaces}, ""},
		"it was claimed so, and the default is another one by now": {[]edit{serves, inPlace}, v1alpha1.StrategySuccessive},
		"it was claimed to replace": {
			[]edit{serves, func(s *scene) { s.server.Status.Workload.Strategy = "" }}, "",
		},
	} {
		if got := up(tc.edits...).plan().Claim.Strategy; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A claim of content beside what serves makes nothing, and so does the plan of the rollout: what comes after rests on
// what is stored.
func TestNothingIsMadeBeforeItsPlanIsStored(t *testing.T) {
	before := &v1alpha1.WorkloadStatus{Generation: 2, Hash: "bbb"}
	claims := up(serves, func(s *scene) { s.server.Status.Workload = before })
	if made := claims.plan(); made.Phase != plan.Claim || len(actions[plan.Objects](made)) > 0 {
		t.Errorf("in %s it does %s", made.Phase, steps(made.Steps))
	}
	made := up(serves).plan()
	writes := actions[plan.WritePlan](made)
	if len(writes) != 1 || !writes[0].Ends || !writes[0].Begins || writes[0].Rollout == nil {
		t.Fatalf("it writes %+v", writes)
	}
	if first, _, _ := strings.Cut(steps(made.Steps), "WritePlan"); strings.Contains(first, "Objects") {
		t.Errorf("it does %s", steps(made.Steps))
	}
	if stored := up(serves, stores).plan(); actions[plan.WritePlan](stored)[0].Ends {
		t.Error("a plan that is stored is written again")
	}
}

// lasts has what the rollout waits for stand for a fifth of the time of its step.
func lasts(s *scene) {
	stores(s)
	for i := range s.server.Status.Rollout.Steps {
		if step := &s.server.Status.Rollout.Steps[i]; step.Deadline != nil {
			step.Deadline = new(metav1.NewTime(step.Deadline.Add(-2 * time.Minute)))
			step.Since = new(metav1.NewTime(step.Since.Add(-2 * time.Minute)))
		}
	}
}

// A server has served with what it claimed once its proxies do, whatever becomes of content beside what serves.
func TestProxiesServeWithAClaimBesideWhatServes(t *testing.T) {
	behind := func(s *scene) { s.world.Proxy = proxyOf(older) }
	for name, tc := range map[string]struct {
		edits []edit
		want  bool
	}{
		"its pods come up":                         {[]edit{serves, stores}, true},
		"it is held":                               {[]edit{serves, candidate, lost, stores}, true},
		"it has failed":                            {[]edit{serves, stores, broken, lasts, stores}, true},
		"it has failed, and none serves":           {[]edit{serves, stores, broken, lasts, stores, noneReady}, false},
		"its proxies come up":                      {[]edit{serves, behind, stores}, false},
		"it has failed, and other proxies come up": {[]edit{serves, stores, broken, lasts, stores, behind}, false},
	} {
		if got := up(tc.edits...).plan().Verdict.Complete; got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	s := up(serves, stores, broken, lasts, stores, behind, func(s *scene) {
		s.world.Proxy = proxyOf(current)
		s.world.Proxy.Status.UpdatedReplicas = 0
		s.world.Pods[0] = unpullable("proxy", workload.ComponentProxy, current)
	})
	if f := s.ready(nil); f.Reason != v1alpha1.ReasonImagePull {
		t.Errorf("of proxies that fail after the rollout has it says %v", f)
	}
}

// What is active, and what is to be, have the number of pods that the spec says; what has lost the calls keeps its own.
func TestHowManyPodsEachContentHas(t *testing.T) {
	scaled := func(s *scene) { s.server.Spec.Replicas = new(int32(3)) }
	sized := func(s *scene) {
		s.world.Backend.Spec.Replicas = new(int32(1))
		if s.world.Slot2.Set != nil {
			s.world.Slot2.Set.Spec.Replicas = new(int32(1))
		}
	}
	switched := func(s *scene) {
		seen(v1alpha1.CandidateStatus{Answers: true})(s)
		stores(s)
	}
	zero := func(s *scene) { s.server.Spec.Replicas = new(int32(0)) }
	resumed := func(s *scene) {
		s.server.Status.LastRollout = &v1alpha1.RolloutOutcome{
			State: v1alpha1.RolloutFailed, Generation: 3, Attempt: 1, Hash: digestOf(current).Backend,
		}
		s.world.Backend.Spec.Replicas, s.world.Backend.Status = new(int32(0)), appsv1.StatefulSetStatus{ObservedGeneration: 2}
	}
	for name, tc := range map[string]struct {
		edits    []edit
		one, two int32
	}{
		"before the switch": {[]edit{serves, candidate, stores, scaled, sized}, 3, 3},
		"after the switch":  {[]edit{serves, candidate, sized, switched, scaled}, 1, 3},
		"to zero after it":  {[]edit{serves, candidate, sized, switched, zero}, 0, 0},
		"what serves comes back after a suspension, though what is asked for has failed": {[]edit{serves, resumed}, 1, -1},
	} {
		s := up(tc.edits...)
		if strings.HasPrefix(name, "to zero") {
			s.stops = snapshot.Stops{}
			s.world.Proxy.Spec.Replicas, s.world.Proxy.Status = new(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 4}
			s.world.Pods = s.world.Pods[1:]
		}
		got := map[string]int32{"echo-backend": -1, "echo-slot2": -1}
		for _, a := range actions[plan.ScaleBackend](s.plan()) {
			got[a.Live.Name] = a.Replicas
		}
		if got["echo-backend"] != tc.one || got["echo-slot2"] != tc.two {
			t.Errorf("%s: %v, want %d and %d", name, got, tc.one, tc.two)
		}
	}
}

// What stands in a slot goes once the stored status does not name it, and not before: the StatefulSet, then the
// Services.
func TestASlotThatNothingUsesIsEmptied(t *testing.T) {
	service := func(s *scene) { s.world.Slot2.Calls = service(current) }
	failed := func(s *scene) {
		s.server.Status.LastRollout = &v1alpha1.RolloutOutcome{
			State: v1alpha1.RolloutFailed, Generation: 3, Attempt: 1, Hash: digestOf(current).Backend,
		}
	}
	empties := func(edits ...edit) (kinds []string) {
		for _, a := range actions[plan.EmptySlot](up(edits...).plan()) {
			for _, object := range a.Objects {
				switch object.(type) {
				case *appsv1.StatefulSet:
					kinds = append(kinds, "StatefulSet")
				case *corev1.Service:
					kinds = append(kinds, "Service")
				}
			}
		}
		return kinds
	}
	for name, tc := range map[string]struct {
		edits []edit
		want  string
	}{
		"a rollout uses it":      {[]edit{serves, candidate, service, stores}, ""},
		"its rollout has failed": {[]edit{serves, failed, candidate, service}, "StatefulSet"},
		"its rollout has failed, and the spec is wrong now": {
			[]edit{serves, failed, candidate, service, invalid, func(s *scene) { s.digest.Backend = "" }}, "StatefulSet",
		},
		"its StatefulSet is gone":     {[]edit{serves, failed, service}, "Service"},
		"the plan is not stored yet":  {[]edit{serves, stores, broken, lasts}, ""},
		"nothing says what is active": {[]edit{candidate, service, func(s *scene) { s.server.Status.Active = nil }}, ""},
		"it is another's": {[]edit{serves, failed, candidate, func(s *scene) {
			of(s.world.Slot2.Set, "other")
		}}, ""},
		"nothing controls it, as after it was restored": {[]edit{serves, failed, candidate, func(s *scene) {
			s.world.Slot2.Set.OwnerReferences = nil
		}}, "StatefulSet"},
		"nothing controls its pods yet, as after they were restored": {[]edit{serves, failed, candidate, func(s *scene) {
			s.world.Slot2.Set.OwnerReferences, s.world.Pods[len(s.world.Pods)-1].OwnerReferences = nil, nil
		}}, ""},
		"it goes already": {[]edit{serves, failed, candidate, func(s *scene) {
			s.world.Slot2.Set.DeletionTimestamp = new(metav1.NewTime(noon))
		}}, ""},
	} {
		if got := strings.Join(empties(tc.edits...), " "); got != tc.want {
			t.Errorf("%s: it deletes %q, want %q", name, got, tc.want)
		}
	}
}

// A server that was restored without its status, and whose backend stood in slot 2, has it there.
func TestWhatWasRestoredInSlot2IsTheIncumbent(t *testing.T) {
	s := up(candidate, func(s *scene) {
		s.server.Status.Active, s.world.Backend = nil, nil
		s.world.Slot2.Set.OwnerReferences = nil
	})
	writes := actions[plan.WritePlan](s.plan())
	if len(writes) != 1 || writes[0].Active == nil || writes[0].Active.Slot != 2 || writes[0].Rollout != nil {
		t.Errorf("it writes %+v", writes)
	}
}

// A rollout goes on also where the spec cannot be followed, or waits for a configuration.
func TestARolloutGoesOnWhateverTheSpecSays(t *testing.T) {
	for name, e := range map[string]edit{"wrong": invalid, "waits": waitsForConfig} {
		s := up(serves, stores, e, candidate)
		if name == "wrong" {
			s.digest.Backend = ""
		}
		writes := actions[plan.WritePlan](s.plan())
		if len(writes) != 1 || writes[0].Rollout == nil || writes[0].Rollout.Steps[1].State != v1alpha1.StepDone {
			t.Errorf("%s: it writes %+v", name, writes)
		}
	}
	none := up(invalid, func(s *scene) { s.digest.Problems = podtemplate.Problems{{Field: "f", Message: "m"}} })
	if writes := actions[plan.WritePlan](none.plan()); len(writes) > 0 {
		t.Errorf("without a rollout it writes %+v", writes)
	}
	if s := up(serves, stores); s.plan().Rollout.State != successive.Moving {
		t.Errorf("it is %s", s.plan().Rollout.State)
	}
}

// What keeps the runner of the claim from making a candidate is the candidate's failure; what another says is not.
func TestWhatTheRunnerMeetsFailsACandidate(t *testing.T) {
	taken := condition(v1alpha1.ConditionBackendApplied, metav1.ConditionFalse, v1alpha1.ReasonNameTaken, "a Service")
	older := func(s *scene) { s.server.Status.Runtime.Generation-- }
	quota := condition(v1alpha1.ConditionBackendApplied, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed,
		`services "echo-slot2" is forbidden: exceeded quota: q`)
	for name, tc := range map[string]struct {
		edits []edit
		want  string
	}{
		"a name is another owner's":             {[]edit{serves, stores, taken, stores}, v1alpha1.ReasonNameTaken},
		"a runner of an earlier claim met that": {[]edit{serves, stores, older, taken, stores}, ""},
		"before a rollout":                      {[]edit{serves, taken}, ""},
		"a quota has no room for a Service":     {[]edit{serves, stores, quota, stores}, ""},
	} {
		s, got := up(tc.edits...), ""
		if last := s.plan().Next.Last; last != nil {
			got = last.Reason
		}
		if got != tc.want {
			t.Errorf("%s: it fails with %q, want %q", name, got, tc.want)
		}
		if step := s.plan().Rollout.Step; strings.Contains(name, "quota") && (step.Deadline != nil || step.Message == "") {
			t.Errorf("%s: the step is %+v", name, step)
		}
	}
}

// A failure lasts until other content of the backend was asked for, which the history tells.
func TestWhenContentThatHasFailedIsTriedAgain(t *testing.T) {
	failed := func(s *scene) {
		again(v1alpha1.RolloutFailed, digestOf(current).Backend)(s)
		s.server.Status.Workload.Generation, s.server.Status.Workload.Hash = current.Generation, current.Hash
		s.world.Contents = []metav1.PartialObjectMetadata{
			content(1, "a"), content(2, digestOf(current).Backend),
		}
	}
	for name, tc := range map[string]struct {
		edits []edit
		want  successive.State
	}{
		"other content of the proxy": {[]edit{failed}, successive.Failed},
		"other content of the backend in between": {[]edit{failed, func(s *scene) {
			s.world.Contents[0] = content(3, "a")
		}}, successive.Moving},
		"a failure of this number, and other content of it": {[]edit{failed, func(s *scene) {
			s.server.Status.LastRollout.Generation = 3
			s.world.Contents[0] = content(3, "a")
		}}, successive.Failed},
		"a number that no claim has made": {[]edit{failed, func(s *scene) {
			s.world.Contents[0] = content(9, "a")
		}}, successive.Failed},
	} {
		if got := up(tc.edits...).plan().Rollout.State; got != tc.want {
			t.Errorf("%s: it is %s, want %s", name, got, tc.want)
		}
	}
}
