package snapshot

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Control is who controls the object that has the name of a child.
type Control int

const (
	// Absent means that there is no such object.
	Absent Control = iota
	// Ours means that the server controls it.
	Ours
	// Orphan means that nothing controls it.
	Orphan
	// Foreign means that something else controls it, such as an earlier server of this name.
	Foreign
)

// Child is what stands under the name of a child.
type Child[O client.Object] struct {
	// Live is nil where Control is Absent.
	Live    O
	Control Control
	// Revision is the highest that it carries, zero for none.
	Revision revision.Revision
}

// Ours reports whether the server controls it.
func (c Child[O]) Ours() bool { return c.Control == Ours }

// Claimable reports whether the server controls it, or nothing does, as after it was restored.
func (c Child[O]) Claimable() bool { return c.Control == Ours || c.Control == Orphan }

// Exists reports whether there is such an object, whoever controls it.
func (c Child[O]) Exists() bool { return c.Control != Absent }

// Lost reports whether there is such an object that the server does not control.
func (c Child[O]) Lost() bool { return c.Control == Orphan || c.Control == Foreign }

// childOf is a child that carries its revision in its own annotations, and in those of its pods.
func childOf[T any, O interface {
	*T
	client.Object
}](server kinds.Object, live O, pods ...map[string]string) Child[O] {
	if live == nil {
		return Child[O]{}
	}
	child := Child[O]{Live: live, Control: Foreign}
	switch owner := metav1.GetControllerOfNoCopy(live); {
	case owner == nil:
		child.Control = Orphan
	case owner.UID == server.GetUID():
		child.Control = Ours
	}
	// One that cannot be read is none: it is written over.
	child.Revision, _ = revision.Of(append([]map[string]string{live.GetAnnotations()}, pods...)...) //nolint:errcheck // as said above
	return child
}

// Progress is how far a workload is with what its spec says.
type Progress int

const (
	// Unobserved means that the status is of before the last change of the spec.
	Unobserved Progress = iota
	// Rolling means that pods of other content count.
	Rolling
	// Surplus means that all pods that stay run it, and others end.
	Surplus
	// Complete means that all pods run it.
	Complete
)

// done reports whether it has rolled out. While the status is of before the last change, was stays true: other
// content would carry another revision, so the workload is scaled, or repaired.
func (p Progress) done(was bool) bool { return p == Complete || was && p != Rolling }

// Proxy is the Deployment of the proxy.
type Proxy struct {
	Child[*appsv1.Deployment]
	Progress Progress
	Replicas int32
	// Available reports whether a pod of it is.
	Available bool
	// Stopped reports whether it asks for no pods, and counts none.
	Stopped bool
	// Written is when its content last changed.
	Written time.Time
}

func proxyOf(server kinds.Object, live *appsv1.Deployment) Proxy {
	if live == nil {
		return Proxy{Stopped: true}
	}
	p := Proxy{
		Child:    childOf(server, live, live.Spec.Template.Annotations),
		Replicas: ptr.Deref(live.Spec.Replicas, 1), Available: live.Status.AvailableReplicas > 0,
		Written: written(live.ManagedFields),
	}
	switch {
	case live.Status.ObservedGeneration < live.Generation:
		p.Progress = Unobserved
	case live.Status.UpdatedReplicas != live.Status.Replicas:
		p.Progress = Rolling
	default:
		p.Progress = Complete
	}
	p.Stopped = p.Replicas == 0 && p.Progress != Unobserved && live.Status.Replicas == 0
	return p
}

// RolledOut reports whether every proxy pod that counts carries rev. was says that this was so before.
func (p *Proxy) RolledOut(rev revision.Revision, was bool) bool {
	return p.Exists() && p.Revision == rev && p.Progress.done(was)
}

// GrowsTo reports whether all pods that the Deployment is asked to add are of rev. Where
// its number rises the Deployment controller first scales the ReplicaSets that have pods,
// before it makes one of a new pod template; so does a paused one where none has any.
func (p *Proxy) GrowsTo(rev revision.Revision) bool {
	switch status := p.Live.Status; {
	case p.Progress == Unobserved:
		return false
	case p.Replicas == 0 && status.Replicas == 0:
		return !p.Live.Spec.Paused
	default:
		return p.Revision == rev && status.Replicas > 0 && p.Progress == Complete
	}
}

// Backend is the StatefulSet of the backend.
type Backend struct {
	Child[*appsv1.StatefulSet]
	Progress Progress
	// Hash names what its pods are to run, empty if nothing does.
	Hash     string
	Replicas int32
	// Ready reports whether a pod of it is.
	Ready bool
	// Stopped reports whether it asks for no pods, and counts none.
	Stopped bool
	// LacksPods reports whether it has fewer pods than it asks for.
	LacksPods bool
	// Written is when its content last changed.
	Written time.Time
}

func backendOf(server kinds.Object, live *appsv1.StatefulSet) Backend {
	if live == nil {
		return Backend{Stopped: true}
	}
	status := live.Status
	b := Backend{
		Child: childOf(server, live), Hash: live.Spec.Template.Annotations[workload.AnnotationBackendHash],
		Replicas: ptr.Deref(live.Spec.Replicas, 1), Ready: status.ReadyReplicas > 0, Written: written(live.ManagedFields),
	}
	switch {
	case status.ObservedGeneration < live.Generation:
		b.Progress = Unobserved
	case status.CurrentRevision != status.UpdateRevision:
		b.Progress = Rolling
	case status.UpdatedReplicas != status.Replicas:
		// A pod that is ending counts as one, and as one of no revision.
		b.Progress = Surplus
	default:
		b.Progress = Complete
	}
	b.Stopped = b.Replicas == 0 && b.Progress != Unobserved && status.Replicas == 0
	b.LacksPods = live.Spec.Replicas != nil && b.Progress != Unobserved && status.Replicas < *live.Spec.Replicas
	return b
}

// RolledOut reports whether the backend carries rev, and every pod of it that counts runs what has hash. was says that
// this was so before. What was ready has no pods of other content: Ready goes down before its number is claimed.
func (b *Backend) RolledOut(rev revision.Revision, hash string, was bool) bool {
	return b.Exists() && b.Revision == rev && b.Hash == hash && b.Progress.done(was)
}

// written is when the content of a workload last changed, as the API server records it for the
// manager that writes it; zero where nothing says so.
func written(fields []metav1.ManagedFieldsEntry) (last time.Time) {
	for _, e := range fields {
		if e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && e.Time != nil && e.Time.After(last) &&
			writes(e.Manager) {
			last = e.Time.Time
		}
	}
	return last
}

func writes(manager string) bool {
	for _, k := range kinds.All() {
		if manager == string(k.ChildrenManager) {
			return true
		}
	}
	return manager == string(contract.RunnerBackend)
}

// settles is how long the numbers of a backend's pods stay as they are before they are taken for those that last.
const settles = time.Minute

// settling is how much longer the numbers of a backend's pods may be on their way, 0 if they are those that are
// reported, or have stayed for long, or if none are reported. When they changed last the API server records; where its
// clock is ahead of ours they are looked at again after settles, and not later.
func settling(s *Snapshot) time.Duration {
	last, backend := s.Last, s.Backend()
	if !backend.Ours() || last.Replicas == nil || last.ReadyReplicas == nil ||
		*last.Replicas == backend.Live.Status.Replicas && *last.ReadyReplicas == backend.Live.Status.ReadyReplicas {
		return 0
	}
	var changed time.Time
	for _, e := range backend.Live.ManagedFields {
		if e.Subresource == "status" && e.Time != nil && e.Time.After(changed) {
			changed = e.Time.Time
		}
	}
	return min(settles, max(0, changed.Add(settles).Sub(s.Now)))
}
