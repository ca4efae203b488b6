package mcpserver

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// ready answers whether calls reach the content of the spec, and nothing older.
func ready(server *v1alpha1.MCPServer, w world, want wanted, applied error) conditions.Finding {
	applied = apply.WithoutConflicts(applied)
	was := serves(lastReason(server))
	halted := notServed(server, want)
	switch {
	case applied != nil && (!was || halted != nil || apply.Refused(applied) != nil):
		return refused(applied)
	// A server that is to stop, and whose spec is wrong, has not got what it asks for.
	case halted != nil && (want.renderable() || !halts(halted.Reason)):
		return *halted
	}
	if f := accepted(server, want); f.Status != metav1.ConditionTrue {
		return f
	}
	if len(want.unclaimed) > 0 {
		return unclaimedNumbers(want)
	}
	if was && !want.claimed(server) {
		return replacesPods() // it serves, and the number comes next: what troubles a pod of it is not why
	}
	if !rolledOut(server, w, want, was) {
		return moving(server, w, want)
	}
	hasBackend := kinds.Of(server).Backend
	if f := backendRefused(server, want); f != nil {
		return *f
	}
	if !available(server, w) {
		if reason := lastReason(server); !serves(reason) && reason != v1alpha1.ReasonUnavailable {
			return moving(server, w, want) // its pods are not up yet
		}
		if f := trouble(w, want.revision, want.backendHash()); f != nil {
			return *f
		}
		return conditions.False(v1alpha1.ReasonUnavailable, noPodReady(hasBackend)+readiness(server, w, want))
	}
	if ok, _ := answers(server, want); !ok {
		return moving(server, w, want)
	}
	if c := want.waitsFor; c != nil {
		if last := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady); last != nil && last.Reason == v1alpha1.ReasonApplyFailed &&
			slices.ContainsFunc(w.turns, rollout.Turn.StaysRefused) {
			return conditions.False(last.Reason, last.Message)
		}
		return rollout.Pending(c.Kind, c.Name)
	}
	return conditions.True(v1alpha1.ReasonReady, "MCP calls are served at "+address(server))
}

// rolledOut reports whether nothing runs but the wanted content, and the runner knows it.
func rolledOut(server *v1alpha1.MCPServer, w world, want wanted, was bool) bool {
	runtime, hasBackend := server.Status.Runtime, kinds.Of(server).Backend
	return want.claimed(server) && w.proxyRolledOut(want.revision, was) && (!hasBackend || w.backendRolledOut(want.revision, want.backendHash(), was)) &&
		runtime != nil && runtime.ServerUID == string(server.UID) && runtime.Generation >= want.revision.Generation
}

func available(server *v1alpha1.MCPServer, w world) bool {
	return w.proxy.Status.AvailableReplicas > 0 && (!kinds.Of(server).Backend || w.backend.Status.ReadyReplicas > 0)
}

// complete reports whether the content that was claimed last has served, also where
// something keeps a newer one from being taken.
func complete(server *v1alpha1.MCPServer, w world, want wanted) bool {
	if want.kept {
		want.content.Rendering.Backend = backendHash(w.backend) // the spec may say another one
	}
	if !rolledOut(server, w, want, false) || !available(server, w) {
		return false
	}
	answered, _ := answers(server, want)
	return answered
}

func noPodReady(hasBackend bool) string {
	if hasBackend {
		return "the rollout is complete, but no pod of the proxy is ready, or none of the backend"
	}
	return "the rollout is complete, but no pod of the proxy is ready"
}

// serves reports whether a server of which this was said last served its content.
func serves(reason string) bool {
	return reason == v1alpha1.ReasonReady || reason == v1alpha1.ReasonRolloutPending
}

// refused words a write that the API server refused.
func refused(err error) conditions.Finding {
	var unadoptable *apply.Unadoptable
	switch {
	case errors.As(err, &unadoptable):
		return conditions.NotAdoptable(apply.Parts(err)...)
	case errors.Is(err, apply.ErrForeign):
		return conditions.NameTaken(apply.Parts(err)...)
	}
	return conditions.False(v1alpha1.ReasonApplyFailed, err.Error())
}

// moving says why content has not rolled out yet. One message for the whole
// way where nothing is wrong: each step of it would be a write.
func moving(server *v1alpha1.MCPServer, w world, want wanted) conditions.Finding {
	if f := trouble(w, want.revision, want.backendHash()); f != nil {
		return *f
	}
	if f := backendRefused(server, want); f != nil {
		return *f
	}
	if _, f := answers(server, want); f != nil {
		return *f
	}
	// The first content is starting until it is ready, whatever of it is there.
	if server.Status.URL == "" || lastReason(server) == v1alpha1.ReasonStarting {
		pods := "the proxy"
		if kinds.Of(server).Backend {
			pods = "the proxy and the backend"
		}
		return conditions.False(v1alpha1.ReasonStarting, "waiting for pods of "+pods+" to become ready"+readiness(server, w, want))
	}
	f := replacesPods()
	f.Message += readiness(server, w, want)
	return f
}

func replacesPods() conditions.Finding {
	return conditions.False(v1alpha1.ReasonUpdating, "waiting for pods with the new content to replace the older ones")
}

// backendRefused says what keeps the runner from applying the backend, in the
// runner's words. That it stands back for another runner is none of it.
func backendRefused(server *v1alpha1.MCPServer, want wanted) *conditions.Finding {
	c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionBackendApplied)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == v1alpha1.ReasonStandingBack || !want.claimed(server) {
		return nil
	}
	return new(conditions.False(c.Reason, c.Message))
}

// answers reports whether MCP has answered for the wanted content, as the runner
// says; a finding says why it does not. There is none while the runner has not
// asked.
func answers(server *v1alpha1.MCPServer, want wanted) (bool, *conditions.Finding) {
	runtime := server.Status.Runtime
	c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionBackendAnswers)
	switch {
	case c == nil, runtime == nil, runtime.ServerUID != string(server.UID), !want.claimed(server), runtime.Generation < want.revision.Generation:
		return false, nil
	case c.Status == metav1.ConditionFalse:
		return false, new(conditions.False(c.Reason, c.Message))
	}
	return c.Status == metav1.ConditionTrue, nil
}

// lastReason is the reason of Ready as it was reported last.
func lastReason(server *v1alpha1.MCPServer) string {
	if c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

func isReady(server *v1alpha1.MCPServer) bool {
	return meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionReady)
}
