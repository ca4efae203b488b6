package mcpserver

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/events"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// The release before replaced all content in place unless a strategy was written. Of a server that it has left nothing
// is written, by the same runner, and no pod of the backend is replaced, by another one. The next content comes up
// beside what serves.
func TestAnUpgradeBringsNoRollout(t *testing.T) {
	r, s := settledWith(t, func(server *v1alpha1.MCPServer) { server.Spec.Rollout = echoInPlace().Spec.Rollout })
	server := read(s)
	server.Spec.Image = "registry.example.com/echo:2"
	s.put(server)
	rest(t, r, s)
	set := storedKey{"StatefulSet", "echo-backend"}
	delete(s.objects, set) // the runner's apply is made as for a new one
	s.come(r.Applier)
	rest(t, r, s)
	server = read(s)
	server.Spec.Rollout = nil
	s.put(server)
	left := read(s).Status
	if left.Workload.Generation != 2 || left.Workload.Strategy != "" || left.Active == nil ||
		left.Active.Generation != 2 || left.Rollout != nil || left.LastRollout != nil {
		t.Fatalf("the release before leaves %+v", left)
	}
	backend := s.objects[set].DeepCopyObject().(*appsv1.StatefulSet)

	stands := func(what string) {
		t.Helper()
		now, live := read(s).Status, s.objects[set].(*appsv1.StatefulSet)
		if now.Rollout != nil || now.LastRollout != nil || now.Workload.Strategy != "" || *now.Active != *left.Active ||
			live.ResourceVersion != backend.ResourceVersion {
			t.Errorf("%s: %+v, %+v", what, now, live.ObjectMeta)
		}
	}
	before := s.applies
	pass(t, s.operator(s, s, noon))
	if stands("the same runner"); s.applies != before {
		t.Errorf("it writes %d times", s.applies-before)
	}

	next := s.release("freehold.dev/runner:next")
	rest(t, next, s)
	if stands("another runner"); read(s).Status.Workload.Generation != 3 {
		t.Errorf("it claims %+v", read(s).Status.Workload)
	}

	server = read(s)
	server.Spec.Image = "registry.example.com/echo:3"
	s.put(server)
	rest(t, next, s)
	now := read(s).Status
	if now.Workload.Strategy != v1alpha1.StrategySuccessive || now.Rollout == nil || now.Rollout.Target.Slot != 2 ||
		*now.Active != *left.Active || s.objects[set].GetResourceVersion() != backend.ResourceVersion {
		t.Errorf("new content: %+v, %+v", now.Workload, now.Rollout)
	}
}

// Who goes back to what serves, after a release with another bridge has claimed something else, asks for the content
// that serves: no pod of it is replaced, and no rollout begins.
func TestWhoGoesBackAfterAnUpgradeAsksForWhatServes(t *testing.T) {
	for between, edit := range map[string]func(*v1alpha1.MCPServer){
		"other content with a bridge": func(server *v1alpha1.MCPServer) { server.Spec.Args = []string{"--other"} },
		"content without a bridge": func(server *v1alpha1.MCPServer) {
			server.Spec.Transport = v1alpha1.TransportStreamableHTTP
		},
	} {
		t.Run(between, func(t *testing.T) {
			_, s := settledWith(t, func(server *v1alpha1.MCPServer) { server.Spec.Transport = v1alpha1.TransportSSE })
			left, set := read(s), storedKey{"StatefulSet", "echo-backend"}
			active, spec, stands := *left.Status.Active, left.Spec, s.objects[set].GetResourceVersion()
			next := s.release("freehold.dev/runner:next")
			edited(s, edit)
			rest(t, next, s)
			if now := read(s).Status; now.Rollout == nil || *now.Active != active {
				t.Fatalf("other content comes beside what serves: %+v", now)
			}
			for _, args := range []string{"--third", "--fourth"} { // each cancels the rollout before
				edited(s, func(server *v1alpha1.MCPServer) { server.Spec.Args = []string{args} })
				rest(t, next, s)
			}
			edited(s, func(server *v1alpha1.MCPServer) { server.Spec = spec })
			rest(t, next, s)
			now := read(s).Status
			if now.Workload.BackendHash != active.Hash || now.Workload.BridgeImage != options.RunnerImage ||
				now.Rollout != nil || *now.Active != active || s.objects[set].GetResourceVersion() != stands {
				t.Errorf("it claims %+v, and %+v is under way", now.Workload, now.Rollout)
			}
			// Of the last rollout, and of the claim before.
			if len(now.Workload.BridgeImages) > 2 {
				t.Errorf("images of content that the status names no more are kept: %v", now.Workload.BridgeImages)
			}
		})
	}
}

// release is an operator with another runner.
func (s *stored) release(image string) *Reconciler {
	_, own := schemas()
	applier := apply.New(s, s, apply.NewConverter(s.Scheme(), own), contract.Freehold())
	return New(snapshot.NewReader(kinds.Servers(), s, s), applier, &events.FakeRecorder{},
		podtemplate.Release{RunnerImage: image})
}
