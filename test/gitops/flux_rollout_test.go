package gitops

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// TestFluxSaysWhatARolloutDoes: content that comes up beside what serves is in progress, a rollout that is held or has
// failed is a failure at once, and neither takes down what serves; an approval, and a commit that goes back, make Flux
// say Ready, and going back to content that serves is no rollout.
func TestFluxSaysWhatARolloutDoes(t *testing.T) {
	f := newFlux(t)
	f.repo.edit(base+"notes.yaml", "spec:\n", "spec:\n  rollout: {strategy: Successive, sessionsEnd: 0s}\n")
	first := "main@sha1:" + f.repo.push("servers")
	f.apply("dev")
	f.ready("dev", first)
	s, server := f.server("dev", "notes")
	s.Read(server)
	serves := server.Status.Active
	history := s.Record(server)

	// In progress until the new pods are ready, and until the switch has been taken note of.
	image := "registry.test/team/notes:2.1.0" // one that no overlay names
	f.Kubelet.Image(image, kit.NeverReady())
	f.repo.edit(base+"notes.yaml", "registry.example.com/team/notes:2.0.1", image)
	second := f.push("another image")
	s.Await(server, "the candidate is waited for", func() error {
		is, _, err := kit.Kstatus(s.Unstructured(server))
		r := server.Status.Rollout
		if err == nil && (is != "InProgress" || r == nil || r.Steps[0].State != v1alpha1.StepDone) {
			err = fmt.Errorf("kstatus says %s of %+v", is, r)
		}
		return err
	})
	f.Kubelet.Image(image, kit.Runs())
	f.ready("dev", second)
	s.Read(server)
	if server.Status.Active.Hash == serves.Hash {
		t.Error("Flux says Ready while the content before has the calls")
	}
	serves = server.Status.Active

	// Held: a failure at once that says what to do, and an approval by Git.
	f.repo.edit(base+"notes.yaml", "sessionsEnd: 0s}", "sessionsEnd: 0s, hold: Always}")
	f.repo.edit(base+"notes.yaml", image, "registry.example.com/team/notes:2.0.1")
	f.stalled("notes", f.push("content that waits for an approval"), v1alpha1.ReasonRolloutHeld, serves.Hash)
	s.Read(server)
	f.repo.edit(base+"notes.yaml", "hold: Always}", "hold: Always, approved: \""+server.Status.Rollout.Target.Hash+"\"}")
	f.ready("dev", f.push("the approval"))
	s.Read(server)
	serves = server.Status.Active

	// Failed: a failure at once, and going back by Git replaces nothing.
	image = "registry.invalid/team/notes:2.0.2"
	f.Kubelet.Image(image, kit.ImagePullBackOff("not found"))
	f.repo.edit(base+"notes.yaml", "  image: registry.example.com/team/notes:2.0.1\n",
		"  image: "+image+"\n  progressDeadlineSeconds: 20\n")
	f.stalled("notes", f.push("an image that is not there"), v1alpha1.ReasonRolloutFailed, serves.Hash)
	f.repo.git(f.repo.dir, "revert", "--no-commit", "HEAD")
	f.ready("dev", f.push("back"))
	if s.Read(server); server.Status.Active.Hash != serves.Hash || server.Status.Rollout != nil {
		t.Errorf("after going back %+v has the calls, want %+v", server.Status.Active, serves)
	}
	if plans := plansOf(history); len(plans) != 3 {
		t.Errorf("three rollouts had the plans %v", plans)
	}
}

// plansOf are the ids of all rollouts that a server had.
func plansOf(history *kit.Recording) map[string]bool {
	plans := map[string]bool{}
	history.Check(func(at kit.State) error {
		if id, found, _ := unstructured.NestedString(at.Object.Object, "status", "rollout", "id"); found {
			plans[id] = true
		}
		return nil
	})
	return plans
}

// stalled waits until Flux says that a server has failed, and holds that content of a hash serves.
func (f *flux) stalled(name, revision, reason, hash string) {
	f.Helper()
	message := f.says("dev", revision, "False", "HealthCheckFailed")
	if !strings.Contains(message, "failed early due to stalled resources: [MCPServer/team-dev/"+name+
		" status: 'Failed']") {
		f.Errorf("Flux does not name the server, or waited for its timeout: %s", message)
	}
	s, server := f.server("dev", name)
	s.Read(server)
	c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Reason != reason {
		f.Errorf("the server says %+v, want %s", server.Status.Conditions, reason)
	}
	if !meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionAvailable) ||
		server.Status.Active.Hash != hash {
		f.Errorf("%+v has the calls, want content %s", server.Status.Active, hash)
	}
}
