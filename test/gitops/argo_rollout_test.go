package gitops

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// TestArgoSaysWhatARolloutDoes: Argo CD says Progressing while content comes up beside what serves, and Degraded at
// once of a rollout that is held or has failed, while what serves keeps the calls; an approval by Git, and a commit
// that goes back, make it Healthy.
func TestArgoSaysWhatARolloutDoes(t *testing.T) {
	a := newArgo(t)
	a.repo.edit(base+"notes.yaml", "spec:\n", "spec:\n  rollout: {strategy: Successive, sessionsEnd: 0s}\n")
	first := a.repo.push("servers")
	a.apply()
	a.healthy(first)
	s := a.On(team)
	server := &v1alpha1.MCPServer{ObjectMeta: named("notes")}
	s.Read(server)
	serves := server.Status.Active
	history := s.Record(server)

	// Progressing until the new pods are ready, and until the switch has been taken note of.
	image := "registry.example.com/team/notes:2.1.0"
	a.Kubelet.Image(image, kit.NeverReady())
	a.repo.edit(base+"notes.yaml", "notes:2.0.1", "notes:2.1.0")
	second := a.push("another image")
	a.says(second, "Synced", "Progressing", "Succeeded")
	a.serves(serves.Hash)
	a.Kubelet.Image(image, kit.Runs())
	a.healthy(second)
	if s.Read(server); server.Status.Active.Hash == serves.Hash {
		t.Error("Argo CD says Healthy while the content before has the calls")
	}
	serves = server.Status.Active

	// Held: Degraded at once, with what to do, until Git approves.
	a.repo.edit(base+"notes.yaml", "sessionsEnd: 0s}", "sessionsEnd: 0s, hold: Always}")
	a.repo.edit(base+"notes.yaml", "notes:2.1.0", "notes:2.0.1")
	a.says(a.push("content that waits for an approval"), "Synced", "Degraded", "Succeeded")
	message := a.judged("notes", "Degraded", v1alpha1.ConditionStalled, v1alpha1.ReasonRolloutHeld)
	_, hash, _ := strings.Cut(message, "set spec.rollout.approved to ")
	hash, _, _ = strings.Cut(hash, ";")
	a.serves(serves.Hash)
	if s.Read(server); hash == "" || !strings.HasPrefix(server.Status.Rollout.Target.Hash, hash) {
		t.Fatalf("the message says %q, and what is held is %+v", message, server.Status.Rollout)
	}
	a.repo.edit(base+"notes.yaml", "hold: Always}", fmt.Sprintf("hold: Always, approved: %q}", hash))
	a.healthy(a.push("the approval"))
	if s.Read(server); !strings.HasPrefix(server.Status.Active.Hash, hash) {
		t.Errorf("approved as %s, and %+v has the calls", hash, server.Status.Active)
	}
	serves = server.Status.Active

	// Failed: Degraded at once, and going back by Git replaces nothing.
	image = "registry.invalid/team/notes:2.0.2"
	a.Kubelet.Image(image, kit.ImagePullBackOff("not found"))
	a.repo.edit(base+"notes.yaml", "registry.example.com/team/notes:2.0.1", image)
	a.says(a.push("an image that is not there"), "Synced", "Degraded", "Succeeded")
	a.judged("notes", "Degraded", v1alpha1.ConditionStalled, v1alpha1.ReasonRolloutFailed)
	a.serves(serves.Hash)
	a.repo.git(a.repo.dir, "revert", "--no-commit", "HEAD")
	a.healthy(a.push("back"))
	if s.Read(server); server.Status.Active.Hash != serves.Hash || server.Status.Rollout != nil {
		t.Errorf("after going back %+v has the calls, want %+v", server.Status.Active, serves)
	}
	if plans := plansOf(history); len(plans) != 3 {
		t.Errorf("three rollouts had the plans %v", plans)
	}
}

// serves fails unless the server notes says that content of a hash has the calls, and serves.
func (a *argo) serves(hash string) {
	a.Helper()
	server := &v1alpha1.MCPServer{ObjectMeta: named("notes")}
	a.On(team).Read(server)
	if server.Status.Active.Hash != hash ||
		!meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionAvailable) {
		a.Errorf("%+v has the calls, want content %s: %+v", server.Status.Active, hash, server.Status.Conditions)
	}
}
