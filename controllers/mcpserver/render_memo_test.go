package mcpserver

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/mcpserver/render"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// What is remembered of an input is what a renderer makes of it that remembers nothing, whichever part of the input
// differs from those before.
func TestWhatIsRememberedIsOfAllInputs(t *testing.T) {
	remembers := render.New(options)
	refused := []string{
		"policies that are wrong", "policies that are wrong in another way", "policies that are gone",
		"policies that are to go, and it has none",
	}
	for _, step := range []struct {
		differs string
		edit    func(*v1alpha1.MCPServer, *world)
	}{
		{"nothing", func(*v1alpha1.MCPServer, *world) {}},
		{"the spec", func(s *v1alpha1.MCPServer, _ *world) { s.Spec.Args = []string{"--other"} }},
		{"the transport", func(s *v1alpha1.MCPServer, _ *world) { s.Spec.Transport = v1alpha1.TransportSSE }},
		{"the image of its bridge", func(s *v1alpha1.MCPServer, _ *world) {
			s.Spec.Transport, s.Status.Workload.BridgeImage = v1alpha1.TransportSSE, "runner:before"
			s.Status.Workload.BackendHash = bridgedBy(t, s)
		}},
		{"the Secret of its sessions", func(s *v1alpha1.MCPServer, _ *world) { s.Status.Workload.SessionSecret = "other" }},
		{"its uid", func(s *v1alpha1.MCPServer, _ *world) { s.UID = "other" }},
		{"its name", func(s *v1alpha1.MCPServer, _ *world) { s.Name = "other" }},
		{"the policies", func(s *v1alpha1.MCPServer, w *world) { refers(s, w, all) }},
		{"policies that are wrong", func(_ *v1alpha1.MCPServer, w *world) {
			w.Configs.Refs[0].Verdict.Err = errors.New("policy a is wrong")
		}},
		{"policies that are wrong in another way", func(_ *v1alpha1.MCPServer, w *world) {
			w.Configs.Refs[0].Verdict.Err = errors.New("policy b is wrong")
		}},
		{"policies that are gone", func(_ *v1alpha1.MCPServer, w *world) { w.Configs.Refs[0].Object = nil }},
		{"policies that it has not", func(s *v1alpha1.MCPServer, _ *world) { s.Status.Workload.Configs = nil }},
		{"policies that are to go, and it has none", func(s *v1alpha1.MCPServer, w *world) {
			s.Status.Workload.Configs = nil
			w.Configs.Refs[0].Object.SetDeletionTimestamp(&metav1.Time{})
		}},
		{"policies that are to go, and it has some", func(_ *v1alpha1.MCPServer, w *world) {
			w.Configs.Refs[0].Object.SetDeletionTimestamp(&metav1.Time{})
		}},
	} {
		server, w := guarded(t, rollout.Waiting, true)
		step.edit(server, &w)
		s := snapshot.Of(server, w, noon)
		got, known := remembers.Digests(s)
		want, _ := render.New(options).Digests(s)
		if diff := cmp.Diff(want, got); !known || diff != "" {
			t.Errorf("%s (-rendered +remembered):\n%s", step.differs, diff)
		}
		if wrong := len(got.Present.Problems) > 0; wrong != slices.Contains(refused, step.differs) {
			t.Errorf("%s: it has problems: %t", step.differs, wrong)
		}
	}
}

// bridgedBy is the hash of the backend with the bridge that the server has.
func bridgedBy(t *testing.T, server *v1alpha1.MCPServer) string {
	t.Helper()
	release := options
	release.RunnerImage = server.Status.Workload.BridgeImage
	digests, _ := render.New(release).Digests(snapshot.Of(server, world{}, noon))
	return digests.Present.Backend
}
