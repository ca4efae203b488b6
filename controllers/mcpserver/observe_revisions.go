package mcpserver

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// What is believed of the numbers that children carry, and said of the others.

// numbered is a child that carries a revision.
type numbered struct {
	what     string
	revision revision.Revision
	// held says that this server controls it, free that nobody does.
	held, free bool
	// runs says that it runs pods: who may write it may run anything here.
	runs bool
}

// numbered are the children whose number the gate judges. A run config is none
// of them: it is found by its name, not by its number.
func (w *world) numbered(server *v1alpha1.MCPServer) []numbered {
	var all []numbered
	add := func(kind string, obj client.Object, rev revision.Revision, runs bool) {
		owner := metav1.GetControllerOfNoCopy(obj)
		all = append(all, numbered{kind + " " + obj.GetName(), rev, owner != nil && owner.UID == server.UID, owner == nil, runs})
	}
	if w.proxy != nil {
		add("Deployment", w.proxy, revisionOf(w.proxy), true)
	}
	if w.backend != nil {
		add("StatefulSet", w.backend, readable(w.backend.Annotations), true)
	}
	for _, service := range []*corev1.Service{w.calls, w.names} {
		if service != nil {
			add("Service", service, readable(service.Annotations), false)
		}
	}
	return all
}

// revisions are those that the next number is counted from: the one in the status,
// because nothing carries a number before it stands there. A child counts up to
// that, so that two contents under one number are told apart; what is above was
// made by no claim, and whoever may write a child could else use the numbers up.
//
// Only a server without a number, because it is new or its status was lost, goes
// on from those of its children: of what it controls, and of what runs pods and
// has no controller, as what an earlier server of its name left or what was
// handed over.
func (w *world) revisions(server *v1alpha1.MCPServer) []revision.Revision {
	var revisions []revision.Revision
	claimed := server.Status.Workload
	if claimed != nil {
		revisions = append(revisions, revision.Revision{Generation: claimed.Generation, Hash: claimed.Hash})
	}
	for _, child := range w.numbered(server) {
		if child.counts() && (claimed == nil || child.revision.Generation <= claimed.Generation) {
			revisions = append(revisions, child.revision)
		}
	}
	return revisions
}

func (n numbered) counts() bool { return n.held || n.free && n.runs }

// unclaimed names the children that stand in the way of rev with a number that
// no claim of this server made. Those of an earlier server of the name go by
// themselves.
func (w *world) unclaimed(server *v1alpha1.MCPServer, rev revision.Revision) []string {
	var names []string
	for _, child := range w.numbered(server) {
		other := child.revision.Generation == rev.Generation && child.revision.Hash != rev.Hash && !child.counts()
		if (child.held || child.free) && (child.revision.Generation > rev.Generation || other) {
			names = append(names, fmt.Sprintf("%s carries %d", child.what, child.revision.Generation))
		}
	}
	return names
}

// unclaimedNumbers says which children carry a number that no claim made. It is not
// followed, since the one in the status could never go back; and it may not be
// lowered either but by hand, since it may be of newer content all the same.
func unclaimedNumbers(want wanted) conditions.Finding {
	return conditions.False(v1alpha1.ReasonUnclaimedGeneration, fmt.Sprintf(
		"%s as workload generation, which this server never claimed, so Freehold writes no content there: "+
			"delete that object, and Freehold makes it again, or set it back to %d as docs/policies.md describes",
		strings.Join(want.unclaimed, ", "), want.revision.Generation))
}

// isLatest reports whether the server has the number that was read, where a
// child stands in the way of that: another operator may have claimed since, and
// the cache not show it yet. Its event is on the way.
func (r *Reconciler) isLatest(ctx context.Context, server *v1alpha1.MCPServer, want wanted) (bool, error) {
	if len(want.unclaimed) == 0 {
		return true, nil
	}
	object := r.kind.New()
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(server), object); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	live := kinds.Form(object)
	return live.UID == server.UID && equality.Semantic.DeepEqual(live.Status.Workload, server.Status.Workload), nil
}

// revisionOf is the highest revision that a Deployment carries, on itself or on its
// pods.
func revisionOf(d *appsv1.Deployment) revision.Revision {
	if d == nil {
		return revision.Revision{}
	}
	return readable(d.Annotations, d.Spec.Template.Annotations)
}

// readable is the highest revision in annotations. One that cannot be read is none: it
// is written over.
func readable(annotations ...map[string]string) revision.Revision {
	rev, _ := revision.Of(annotations...) //nolint:errcheck // as said above
	return rev
}

// backendHash names what the backend's pods are to run, empty if nothing does.
func backendHash(s *appsv1.StatefulSet) string {
	if s == nil {
		return ""
	}
	return s.Spec.Template.Annotations[workload.AnnotationBackendHash]
}
