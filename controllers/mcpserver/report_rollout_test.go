package mcpserver

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// third is claimed content beyond current.
func third(s *scene) {
	newest := revision.Revision{Generation: 4, Hash: "ddd"}
	s.digest = digestOf(newest)
	asks(s)
	s.server.Status.Workload = &v1alpha1.WorkloadStatus{
		Generation: newest.Generation, Hash: newest.Hash, Strategy: v1alpha1.StrategySuccessive,
	}
}

// What a server says of content that comes up beside what serves.
func TestWhatARolloutSays(t *testing.T) {
	older := func(s *scene) { s.world.Proxy = proxyOf(older) }
	service := func(kind, name string) edit {
		return func(s *scene) {
			taken := of(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "echo-slot2"}}, "other")
			taken.OwnerReferences[0].Kind, taken.OwnerReferences[0].Name = kind, name
			s.world.Slot2.Calls = taken
		}
	}
	for name, tc := range map[string]struct {
		edits                  []edit
		reason, says, movement string
	}{
		"its proxies come up": {
			[]edit{serves, older, stores}, v1alpha1.ReasonUpdating, "proxies", v1alpha1.ConditionReconciling,
		},
		"its pods come up": {
			[]edit{serves, stores}, v1alpha1.ReasonUpdating, "its pods to become ready", v1alpha1.ConditionReconciling,
		},
		"it is checked": {
			[]edit{serves, candidate, stores}, v1alpha1.ReasonUpdating, "its check", v1alpha1.ConditionReconciling,
		},
		"it has lost a tool": {
			[]edit{serves, candidate, lost, stores}, v1alpha1.ReasonRolloutHeld, "search", v1alpha1.ConditionStalled,
		},
		"a tag has moved between its pods": {
			[]edit{
				serves, candidate, runs("sha256:1"), candidate, runs("sha256:2"),
				seen(v1alpha1.CandidateStatus{Answers: true}), func(s *scene) { s.digest.Reads = "Secret/token" }, stores,
			},
			v1alpha1.ReasonRolloutHeld, "write a digest into spec.image. To let it have the calls, run kubectl freehold " +
				"rollout approve echo, or set spec.rollout.approved to backend-cc; to keep what serves, write its content into " +
				"the spec again. Of the new content pods run sha256:1, sha256:2, pods read Secret/token",
			v1alpha1.ConditionStalled,
		},
		"it has lost a tool, and the default is another one by now": {
			[]edit{serves, candidate, lost, stores, inPlace},
			v1alpha1.ReasonRolloutHeld, "search",
			v1alpha1.ConditionStalled,
		},
		"it is paused": {
			[]edit{serves, stores, func(s *scene) { s.server.Spec.Rollout.Paused = true }, stores},
			v1alpha1.ReasonRolloutHeld, "kubectl freehold rollout resume echo", v1alpha1.ConditionStalled,
		},
		"it cannot be pulled": {
			[]edit{serves, stores, broken, lasts, stores},
			v1alpha1.ReasonRolloutFailed, "cannot be pulled", v1alpha1.ConditionStalled,
		},
		"another owner has a name that it needs": {
			[]edit{serves, service("Deployment", "x")},
			v1alpha1.ReasonNameTaken, "Service echo-slot2 is not this server's", v1alpha1.ConditionStalled,
		},
		"an earlier server had that": {
			[]edit{serves, service("MCPServer", "echo")},
			v1alpha1.ReasonUpdating, "on its way out", v1alpha1.ConditionReconciling,
		},
		"a pod does not end in its place": {
			[]edit{serves, stuck}, v1alpha1.ReasonUpdating, "pod stuck has not ended", v1alpha1.ConditionReconciling,
		},
		"a pod in its place is being removed": {
			[]edit{serves, stuck, func(s *scene) {
				s.world.Pods[len(s.world.Pods)-1].DeletionTimestamp = new(metav1.NewTime(noon.Add(-time.Second)))
			}},
			v1alpha1.ReasonUpdating, "on its way out", v1alpha1.ConditionReconciling,
		},
		"proxies have not acknowledged the content before": {
			[]edit{serves, candidate, seen(v1alpha1.CandidateStatus{Answers: true}), stores, third},
			v1alpha1.ReasonUpdating, "every proxy calls", v1alpha1.ConditionReconciling,
		},
		"its proxies fail": {
			[]edit{serves, older, stores, func(s *scene) {
				s.world.Proxy = proxyOf(current)
				s.world.Proxy.Status.UpdatedReplicas = 0
				s.world.Pods[0] = unpullable("proxy", workload.ComponentProxy, current)
			}},
			v1alpha1.ReasonImagePull, "", v1alpha1.ConditionReconciling,
		},
		"nobody asks for it": {
			[]edit{serves, inPlace, func(s *scene) { s.server.Status.Workload.Strategy = "" }},
			v1alpha1.ReasonUpdating, "replace the older ones", v1alpha1.ConditionReconciling,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := up(tc.edits...)
			found := s.says(nil)
			ready := found[v1alpha1.ConditionReady]
			if ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.says) {
				t.Errorf("Ready is %v", ready)
			}
			if _, moves := found[tc.movement]; !moves {
				t.Errorf("it says %v", found)
			}
			f, stated := found[v1alpha1.ConditionAvailable]
			if stated == (name == "nobody asks for it") || stated && f.Status != metav1.ConditionTrue {
				t.Errorf("Available is %v", f)
			}
			other := s
			other.server = s.server.DeepCopy()
			unanswering("another")(&other)
			if f, stated := other.says(nil)[v1alpha1.ConditionAvailable]; stated && f.Status != metav1.ConditionTrue {
				t.Errorf("while other content hangs Available is %v", f)
			}
			serving := s
			serving.server = s.server.DeepCopy()
			unanswering(s.server.Status.Active.Hash)(&serving)
			found = serving.says(nil)
			f, stated = found[v1alpha1.ConditionAvailable]
			if stated && (f.Status != metav1.ConditionFalse || f.Reason != v1alpha1.ReasonNotAnswering ||
				!strings.HasPrefix(f.Message, "calls go to content backend-") || !strings.HasSuffix(f.Message, "it hangs")) {
				t.Errorf("while the incumbent hangs Available is %v", f)
			}
			if held := found[v1alpha1.ConditionReady]; held.Reason == v1alpha1.ReasonRolloutHeld &&
				!strings.Contains(held.Message, "does not answer") {
				t.Errorf("while the incumbent hangs Ready is %v", held)
			}
			s.world.Backend.Status.ReadyReplicas, s.world.Pods = 0, s.world.Pods[:1]
			found = s.says(nil)
			f, stated = found[v1alpha1.ConditionAvailable]
			if name != "proxies have not acknowledged the content before" && stated && f.Status != metav1.ConditionFalse {
				t.Errorf("with no pod of the incumbent Available is %v", f)
			}
			ready = found[v1alpha1.ConditionReady]
			if ready.Reason == v1alpha1.ReasonRolloutHeld && !strings.Contains(ready.Message, "no calls are served") {
				t.Errorf("with no pod of the incumbent Ready is %v", ready)
			}
		})
	}
}

// unanswering has a runner report that content does not answer.
func unanswering(hash string) edit {
	return func(s *scene) {
		answered(metav1.ConditionFalse, v1alpha1.ReasonNotAnswering, "it hangs")(s)
		s.server.Status.Runtime.BackendHash = hash
	}
}

// A rollout is told of by the plan that was made, also where the write of that was refused, and what serves also in the
// passes before a plan.
func TestARolloutIsToldByItsPlan(t *testing.T) {
	reclaims := func(s *scene) { s.server.Status.Workload.Hash = "bbb" }
	isReady := func(s *scene) {
		reclaims(s)
		said("Ready")(s)
	}
	for name, tc := range map[string]struct {
		edits       []edit
		phase       plan.Phase
		reason      string
		isAvailable bool
	}{
		"its failure is not stored": {
			[]edit{serves, stores, broken, lasts}, plan.RollOut, v1alpha1.ReasonRolloutFailed, true,
		},
		"its end is not stored": {
			[]edit{serves, candidate, lost, stores, func(s *scene) { s.server.Status.Rollout.Steps[2].Reason = "" }},
			plan.RollOut, v1alpha1.ReasonRolloutHeld, true,
		},
		"it is held, and the proxy has other content": {
			[]edit{serves, candidate, lost, stores, reclaims}, plan.Claim, v1alpha1.ReasonRolloutHeld, true,
		},
		"its content is claimed next": {[]edit{serves, reclaims}, plan.Claim, v1alpha1.ReasonUpdating, true},
		"Ready goes down for it":      {[]edit{serves, isReady}, plan.LowerReady, v1alpha1.ReasonUpdating, true},
		"the server is suspended":     {[]edit{serves, suspended}, plan.Draining, v1alpha1.ReasonSuspended, false},
		"the server is suspended after a failure": {
			[]edit{serves, stores, broken, lasts, stores, suspended}, plan.Draining, v1alpha1.ReasonSuspended, false,
		},
	} {
		s := up(tc.edits...)
		found := s.says(nil)
		_, stated := found[v1alpha1.ConditionAvailable]
		if phase := s.plan().Phase; phase != tc.phase || found[v1alpha1.ConditionReady].Reason != tc.reason ||
			stated != tc.isAvailable {
			t.Errorf("%s: in %s it says %v", name, phase, found)
		}
	}
}

// The steps of a rollout have deadlines of their own: it is not Stalled for their sum. What has none may take as long
// as progress may, from when it is waited for.
func TestARolloutStallsByItsSteps(t *testing.T) {
	hour := metav1.NewTime(noon.Add(-time.Hour))
	moves := func(s *scene) {
		condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonUpdating, "")(s)
		last := &s.server.Status.Conditions[len(s.server.Status.Conditions)-1]
		last.LastTransitionTime, last.ObservedGeneration = hour, s.server.Generation
		s.server.Status.Phase = v1alpha1.PhaseUpdating
	}
	tearsDown := func(s *scene) {
		rollout := s.server.Status.Rollout
		for i := range rollout.Steps {
			rollout.Steps[i].State, rollout.Steps[i].StartedAt = v1alpha1.StepDone, nil
		}
		rollout.Steps[len(rollout.Steps)-1].State, rollout.From = v1alpha1.StepActive, nil
	}
	begins := func(at metav1.Time) edit {
		return func(s *scene) {
			if rollout := s.server.Status.Rollout; rollout != nil {
				for i := range rollout.Steps {
					if rollout.Steps[i].State == v1alpha1.StepActive {
						rollout.Steps[i].StartedAt = &at
					}
				}
			}
			if last := s.server.Status.LastRollout; last != nil {
				last.At = at
			}
		}
	}
	quota := condition(v1alpha1.ConditionBackendApplied, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed,
		`services "echo-slot2" is forbidden: exceeded quota: q`)
	for waits, tc := range map[string]struct {
		edits []edit
		timed bool
	}{
		"a check": {[]edit{serves, candidate, stores}, true},
		"a quota": {[]edit{serves, stores, quota, stores}, false},
		"what has left the calls to go": {[]edit{
			serves, candidate, seen(v1alpha1.CandidateStatus{Answers: true}), stores, tearsDown, third,
		}, false},
		"a pod that a rollout which failed has left": {[]edit{serves, stuck, func(s *scene) {
			s.server.Status.LastRollout = &v1alpha1.RolloutOutcome{State: v1alpha1.RolloutFailed, Hash: "other"}
		}}, false},
	} {
		for at, stalls := range map[metav1.Time]bool{hour: !tc.timed, metav1.NewTime(noon.Add(-time.Minute)): false} {
			s := up(append(tc.edits, moves, begins(at))...)
			f, is := s.says(nil)[v1alpha1.ConditionStalled]
			if is != stalls || is && f.Reason != v1alpha1.ReasonUpdating {
				t.Errorf("it waits for %s since %s: Stalled is %t, %v", waits, at, is, f)
			}
		}
	}
}

// runs has the last pod run an image with a digest.
func runs(digest string) edit {
	return func(s *scene) {
		c := &s.world.Pods[len(s.world.Pods)-1].Status.ContainerStatuses
		*c = append(*c, corev1.ContainerStatus{
			Name: podtemplate.ServerContainer, ImageID: "registry.example.com/i@" + digest,
		})
	}
}

// A tag may move long after its content was checked.
func TestWhatServesSaysThatATagHasMoved(t *testing.T) {
	second := func(s *scene) {
		s.world.Pods = append(s.world.Pods, pod("backend-1", workload.ComponentBackend, current))
	}
	for name, tc := range map[string]struct {
		edits []edit
		says  string
	}{
		"one image":            {[]edit{runs("sha256:1"), second, runs("sha256:1")}, ""},
		"a node has no digest": {[]edit{runs("sha256:1"), second}, ""},
		"two names of one image": {
			[]edit{runs("sha256:1"), second, runs("sha256:2"), func(s *scene) { s.digest.Pinned = true }}, "",
		},
		"two images": {
			[]edit{runs("sha256:1"), second, runs("sha256:2")}, "different images, since a tag leads to another image than " +
				"before (sha256:1, sha256:2): write a digest",
		},
	} {
		s := up(tc.edits...)
		f := s.says(nil)[v1alpha1.ConditionReady]
		if f.Status != metav1.ConditionTrue || !strings.Contains(f.Message, tc.says) ||
			strings.Contains(f.Message, "sha256") != (tc.says != "") {
			t.Errorf("%s: Ready is %v", name, f)
		}
	}
}
