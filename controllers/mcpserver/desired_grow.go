package mcpserver

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// How many pods are asked for. A number that falls is stated at once. One that rises
// waits for the content: no pod is started of content that the spec has left.

// grow wants so many proxies, or no more than there are as long as the Deployment
// controller would make others than those of the wanted revision.
func (want *wanted) grow(w world, replicas int32) {
	if d := w.proxy; d != nil && !w.growsTo(want.revision) {
		has := ptr.Deref(d.Spec.Replicas, 1)
		want.byPods = want.byPods || replicas > has
		replicas = min(replicas, has)
	}
	want.proxy.Spec.WithReplicas(replicas)
}

// growsTo reports whether all proxies that the Deployment is asked to add are of rev. Where
// its number rises the Deployment controller first scales the ReplicaSets that have pods,
// before it makes one of a new pod template; so does a paused one where none has any.
func (w *world) growsTo(rev revision.Revision) bool {
	d := w.proxy
	switch {
	case d.Status.ObservedGeneration < d.Generation:
		return false
	case ptr.Deref(d.Spec.Replicas, 1) == 0 && d.Status.Replicas == 0:
		return !d.Spec.Paused
	}
	return revisionOf(d) == rev && d.Status.Replicas > 0 && d.Status.UpdatedReplicas == d.Status.Replicas
}

// backendReplicas is how many replicas the backend is to have now. A StatefulSet makes pods
// of what it carries, and the runner of the wanted content is what raises that. Nor are
// there more where the proxies of a spec that is wrong stay at zero.
func (want *wanted) backendReplicas(server *v1alpha1.MCPServer, backend *appsv1.StatefulSet) int32 {
	replicas := backendReplicas(server)
	if backendHash(backend) != want.backendHash() || want.restsAtZero() {
		replicas = min(replicas, ptr.Deref(backend.Spec.Replicas, 1))
	}
	return replicas
}

// restsAtZero reports whether the proxy that is kept has no pods, and gets none.
func (want *wanted) restsAtZero() bool { return want.kept && *want.proxy.Spec.Replicas == 0 }
