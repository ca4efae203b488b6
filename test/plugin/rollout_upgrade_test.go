package plugin

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// A person takes a change back that was made after an upgrade to a release with another bridge. What is written is the
// content that serves, with the bridge that it has: no pod of it is replaced, and no rollout begins.
func TestUndoAfterAnUpgradeGoesBackToWhatServes(t *testing.T) {
	t.Parallel()
	s := tell(t)
	runners := s.serve("echo", "transport: stdio\ncommand: [/server]")
	runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}})
	server, set := serverOf(s), &appsv1.StatefulSet{}
	s.Read(server)
	active := *server.Status.Active
	set.SetName("echo-backend")
	s.Read(set)

	s.release("freehold.dev/runner:next")
	s.Force("kubectl", kit.Server("echo", "registry.example.com/echo:1",
		"transport: stdio\ncommand: [/server]\nargs: [other]\nrollout: {strategy: Successive}"))
	server = s.reason(v1alpha1.ReasonRolloutHeld)
	if server.Status.Workload.BridgeImage != "freehold.dev/runner:next" {
		t.Fatalf("the new content has the bridge of the release before: %+v", server.Status.Workload)
	}
	s.says(s.asks("", "rollout", "history", "echo"), 0, "active", "candidate")
	s.says(s.asks("", "rollout", "undo", "echo", "--force-conflicts", "--yes"), 0, "goes back to revision 1")
	s.reason(v1alpha1.ReasonReady)
	server = s.until(func(server *v1alpha1.MCPServer) error {
		if server.Status.Rollout != nil {
			return fmt.Errorf("%+v is under way", server.Status.Rollout)
		}
		return nil
	})
	now := set.DeepCopy()
	s.Read(now)
	if *server.Status.Active != active || server.Status.Workload.BackendHash != active.Hash ||
		server.Status.LastRollout.State != v1alpha1.RolloutCancelled || now.UID != set.UID ||
		now.Generation != set.Generation {
		t.Errorf("active is %+v, the claim %+v, the last rollout %+v, the StatefulSet %+v",
			server.Status.Active, server.Status.Workload, server.Status.LastRollout, now.ObjectMeta)
	}
	s.says(s.asks("", "rollout", "history", "echo"), 0, "active")
}
