package plugin

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// until makes passes until a server is as said, which is nil then.
func (s *story) until(is func(*v1alpha1.MCPServer) error) *v1alpha1.MCPServer {
	s.Helper()
	server := serverOf(s)
	for end := time.Now().Add(s.Patience); ; time.Sleep(50 * time.Millisecond) {
		s.pass("echo")
		s.Read(server)
		err := is(server)
		if err == nil {
			return server
		}
		if time.Now().After(end) {
			s.Fatalf("%v: %+v", err, server.Status)
		}
	}
}

// reason waits for that of Ready.
func (s *story) reason(want string) *v1alpha1.MCPServer {
	s.Helper()
	return s.until(func(server *v1alpha1.MCPServer) error {
		ready := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != want || ready.ObservedGeneration != server.Generation {
			return fmt.Errorf("Ready is %+v, want %s", ready, want)
		}
		return nil
	})
}

// A person looks at content that is held, stops it, lets it go on, and approves it. What it reads is named, and that it
// has changed meanwhile (scenario 24).
func TestHeldContentIsLookedAtAndApproved(t *testing.T) {
	t.Parallel()
	s := tell(t)
	const settings = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: %s}}"
	s.Apply("kubectl", fmt.Sprintf(settings, "before"))
	runners := s.serve("echo")
	runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}})
	s.says(s.asks("", "rollout", "approve", "echo", "--yes"), 2, "nothing of it waits for an approval")
	s.Force("kubectl", kit.Server("echo", "registry.example.com/echo:2",
		"envFrom: [{configMapRef: {name: settings}}]\nrollout: {strategy: Successive}"))
	server := s.reason(v1alpha1.ReasonRolloutHeld)

	hash := server.Status.Rollout.Target.Hash
	reads := "content " + hash[:10] + " reads ConfigMap/settings"
	s.says(s.asks("", "rollout", "status", "echo"), 1, "stalls: RolloutHeld", "search",
		"step 3 of 6, Check: pods run sha256:", reads)
	s.says(s.asks("", "rollout", "history", "echo"), 0, "candidate", "ConfigMap/settings")
	time.Sleep(1100 * time.Millisecond) // managedFields have whole seconds
	s.Apply("kubectl", fmt.Sprintf(settings, "after"))
	s.says(s.asks("", "rollout", "status", "echo"), 1, reads,
		"ConfigMap/settings has been written since the rollout began")

	s.says(s.asks("", "rollout", "pause", "echo", "--yes"), 0, "its rollout stops where it is")
	s.says(s.asks("", "rollout", "pause", "echo", "--yes"), 2, "is paused already")
	s.until(func(server *v1alpha1.MCPServer) error {
		if ready := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady); ready == nil ||
			ready.ObservedGeneration != server.Generation {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
	s.says(s.asks("", "rollout", "status", "echo"), 1, "stalls: RolloutHeld: spec.rollout.paused is true")
	s.says(s.asks("", "rollout", "resume", "echo", "--yes"), 0, "its rollout goes on")
	s.says(s.asks("", "rollout", "resume", "echo", "--yes"), 2, "is not paused")
	server = s.reason(v1alpha1.ReasonRolloutHeld)

	s.says(s.asks("", "rollout", "approve", "echo", "--yes", "--generation", "1"), 2, "and the command was given for 1")
	s.says(s.asks("n\n", "rollout", "approve", "echo"), 2, "without these tools: search", "nothing was changed")
	s.says(s.asks("", "rollout", "approve", "echo", "--yes", "--generation", fmt.Sprint(server.Generation)), 0,
		"content "+hash[:10]+" of workload generation 2 gets the calls without these tools: search")
	s.reason(v1alpha1.ReasonReady)
	s.until(func(server *v1alpha1.MCPServer) error {
		if server.Status.Active.Hash != hash || server.Spec.Rollout.Approved != hash || server.Spec.Rollout.Paused {
			return fmt.Errorf("active is %+v, of %+v", server.Status.Active, server.Spec.Rollout)
		}
		return nil
	})
	s.says(s.asks("", "rollout", "status", "echo"), 0, "has rolled out (step 4 of 6, Acknowledge")
	s.says(s.asks("", "rollout", "undo", "echo", "--dry-run"), 0, "goes back to revision 1", "could go back")
}
