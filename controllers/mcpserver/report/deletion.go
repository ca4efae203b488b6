package report

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// Deleting says what a server that is being deleted waits for after an action.
func Deleting(s *snapshot.Snapshot, action plan.Action) string {
	switch action.(type) {
	case plan.OrphanChildren:
		return "its objects stay, as --cascade=orphan asks for; waiting for the garbage collector to take the " +
			s.Kind.Object.Kind + " off them"
	case plan.AwaitBackend:
		return "waiting for the backend pods to end; their NetworkPolicy stays until then"
	}
	const calls = "waiting for the proxy pods to end their calls"
	if s.Kind.Backend {
		return calls + ", then for the backend"
	}
	return calls
}

// PodsRemain tells that a deletion goes on though pods have not ended.
func PodsRemain(p *reconcile.Pass, action plan.Action) {
	switch a := action.(type) {
	case plan.DeleteBackend:
		if a.Left > 0 {
			p.Event(corev1.EventTypeWarning, "ProxyPodsRemain", "Delete",
				fmt.Sprintf("%d proxy pods have not ended within %s; deleting the backend without them", a.Left, a.After))
		}
	case plan.DeletePolicy:
		if a.Left > 0 {
			p.Event(corev1.EventTypeWarning, "BackendPodsRemain", "Delete",
				fmt.Sprintf("%d backend pods have not ended within %s; their NetworkPolicy goes without them", a.Left, a.After))
		}
	}
}

// NotStopped tells that the proxies of a server that is being deleted could not be stopped.
func NotStopped(p *reconcile.Pass, err error) {
	p.Event(corev1.EventTypeWarning, "ProxyNotStopped", "Delete", err.Error())
}
