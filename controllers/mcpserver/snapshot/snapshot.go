// Package snapshot reads everything that a pass over an MCPServer or MCPRemoteProxy looks at, once, and names
// what it says: who controls each child, which revision it carries, how far its rollout is, which pods run and why
// one fails, and what the status said before. Read makes a Snapshot; Of, which is pure, does so from objects.
// It has no result of the pass in it.
package snapshot

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/successive"
	"github.com/freehold-dev/freehold/controllers/routes"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Objects are what was read. A pointer is nil where there is no such object.
type Objects struct {
	Account *corev1.ServiceAccount
	Role    *rbacv1.Role
	Binding *rbacv1.RoleBinding
	Service *corev1.Service

	Proxy *appsv1.Deployment
	// Backend is the StatefulSet of slot 1, Calls and Names are its Services.
	Backend      *appsv1.StatefulSet
	Calls, Names *corev1.Service
	// Slot2 is what stands in slot 2.
	Slot2 BackendObjects
	// Policy is the NetworkPolicy of the backend.
	Policy *networkingv1.NetworkPolicy
	// Route is the HTTPRoute to the proxy, and Routes what is known of that kind.
	Route  *unstructured.Unstructured
	Routes routes.State

	// RunConfigs are without their data.
	RunConfigs []metav1.PartialObjectMetadata
	// Contents are the history of the backend's contents, without their data.
	Contents []metav1.PartialObjectMetadata
	Pods     []corev1.Pod
	// Complaints are what Events say of the pods, also of those that are gone.
	Complaints []conditions.Complaint
	Configs    Configs
	// Leftover is the NetworkPolicy of an earlier server of this name, nil if there is none.
	Leftover *networkingv1.NetworkPolicy
	// Hidden says that a child was found which the cache does not show: no event tells its end.
	Hidden bool
}

// BackendObjects are those of a backend in one slot.
type BackendObjects struct {
	Set          *appsv1.StatefulSet
	Calls, Names *corev1.Service
}

// Slot is the backend in one slot.
type Slot struct {
	Backend Backend
	// Calls and Names are the Services of the backend.
	Calls, Names Child[*corev1.Service]
	// Refused is what refuses pods of the backend.
	Refused Refused
}

// Snapshot is what was read, and what that says. It is not changed after it was made.
type Snapshot struct {
	Object kinds.Object
	Kind   kinds.Kind
	Now    time.Time

	Account Child[*corev1.ServiceAccount]
	Role    Child[*rbacv1.Role]
	Binding Child[*rbacv1.RoleBinding]
	// Service is where clients call.
	Service Child[*corev1.Service]
	// Route leads clients from Gateways there, and Routes is what is known of that kind.
	Route  Child[*unstructured.Unstructured]
	Routes routes.State
	// Active is the slot of the backend that gets the calls, or that is to be the first.
	Active workload.Slot
	Slots  map[workload.Slot]*Slot

	Pods       Pods
	Complaints Complaints
	Configs    Configs
	// MissingGroup is the name of the MCPGroup in the spec, where there is none.
	MissingGroup string
	Leftover     *networkingv1.NetworkPolicy
	Hidden       bool
	// Routing is what proxy pods tell.
	Routing Routing
	// Stops is since when the server stops, and Held what this process has claimed of it.
	Stops Stops
	Held  Held
	// Settling is how much longer the numbers of the backend's pods may be on their way, 0 if they are not.
	Settling time.Duration
	// RememberedAs are the names of the intents that the writer found the children to match which carry content, by uid.
	// Those need not be rendered again.
	RememberedAs map[types.UID]string
	// Last is what the status said before this pass.
	Last Reported

	proxy      Proxy
	policy     Child[*networkingv1.NetworkPolicy]
	runConfigs []metav1.PartialObjectMetadata
	contents   []metav1.PartialObjectMetadata
	foreign    foreign
}

// Of names what objects say that were read at a time. It keeps the objects.
func Of(object kinds.Object, objects Objects, now time.Time) *Snapshot {
	s := &Snapshot{
		Object: object, Kind: kinds.Of(object), Now: now,
		Account: childOf(object, objects.Account), Role: childOf(object, objects.Role),
		Binding: childOf(object, objects.Binding),
		Service: childOf(object, objects.Service),
		Route:   childOf(object, objects.Route), Routes: objects.Routes,
		Slots: map[workload.Slot]*Slot{
			workload.Slot1: slotOf(object, BackendObjects{objects.Backend, objects.Calls, objects.Names}),
			workload.Slot2: slotOf(object, objects.Slot2),
		},
		proxy: proxyOf(object, objects.Proxy), policy: childOf(object, objects.Policy),
		Pods: podsOf(objects.Pods), Configs: objects.Configs, Leftover: objects.Leftover, Hidden: objects.Hidden,
		Last: reported(object), runConfigs: objects.RunConfigs, contents: objects.Contents,
	}
	s.Active = activeSlot(s)
	s.Complaints = Complaints{
		slot: s.Active, all: objects.Complaints, proxy: s.Proxy().Written,
		backend: s.Backend().Written, now: now,
	}
	s.Settling = settling(s)
	return s
}

func slotOf(object kinds.Object, o BackendObjects) *Slot {
	return &Slot{Backend: backendOf(object, o.Set), Calls: childOf(object, o.Calls), Names: childOf(object, o.Names)}
}

// activeSlot is that of status.active. Where nothing is stated, as of a server of an earlier release, it is found by
// what stands.
func activeSlot(s *Snapshot) workload.Slot {
	if s.Last.Active != nil {
		return workload.Slot(s.Last.Active.Slot)
	}
	there := map[workload.Slot]successive.Slot{}
	for slot, in := range s.Slots {
		there[slot] = in.forRollout(slot)
	}
	return successive.Incumbent(there)
}

// Proxy is the Deployment of the proxy.
func (s *Snapshot) Proxy() *Proxy { return &s.proxy }

// Backend is the backend that gets the calls.
func (s *Snapshot) Backend() *Backend { return &s.Slots[s.Active].Backend }

// Removable are the objects of the server in a slot that are not on their way out: the StatefulSet, without which no
// pod is made, and once it is gone the Services. What nothing controls, as after it was restored, is the server's too.
func (in *Slot) Removable() (objects []client.Object) {
	if in.Backend.Claimable() {
		if in.Backend.Live.DeletionTimestamp == nil {
			objects = append(objects, in.Backend.Live)
		}
		return objects
	}
	for _, service := range []Child[*corev1.Service]{in.Calls, in.Names} {
		if service.Claimable() && service.Live.DeletionTimestamp == nil {
			objects = append(objects, service.Live)
		}
	}
	return objects
}

// ForRollout is what is in a slot, as rollouts are decided by it.
func (s *Snapshot) ForRollout(slot workload.Slot) successive.Slot {
	in := s.Slots[slot]
	there := in.forRollout(slot)
	there.Stands = in.Backend.Claimable() || in.Calls.Claimable() || in.Names.Claimable() ||
		s.Pods.Running(slot.Component()) > 0
	there.Overdue = s.Overdue(slot)
	there.IsTaken = in.Backend.Control == Foreign || in.Calls.Control == Foreign || in.Names.Control == Foreign
	if there.Content.Hash == "" {
		return there
	}
	there.Images = s.Pods.Images(slot.Component(), there.Content.Hash)
	there.Failure = s.FirstFailure(Wanted{Slot: slot, Hash: there.Content.Hash})
	if conditions.IsQuota(in.Refused.Words) {
		there.Quota = new(in.RefusedPod())
	}
	return there
}

// Taken says that other owners' objects have names of a slot, nil where none has. What an earlier server of this name
// has left is collected.
func (s *Snapshot) Taken(slot workload.Slot) *conditions.Finding {
	var taken []error
	add := func(kind string, control Control, live client.Object) {
		if control != Foreign {
			return
		}
		owner := metav1.GetControllerOfNoCopy(live)
		if owner == nil || owner.Kind != s.Kind.Object.Kind || owner.Name != s.Object.GetName() {
			taken = append(taken, fmt.Errorf("%s %s is not this server's", kind, live.GetName()))
		}
	}
	in := s.Slots[slot]
	add("StatefulSet", in.Backend.Control, in.Backend.Live)
	add("Service", in.Calls.Control, in.Calls.Live)
	add("Service", in.Names.Control, in.Names.Live)
	if len(taken) == 0 {
		return nil
	}
	return new(conditions.NameTaken(taken...))
}

// SlowNode is how much longer than its grace period a pod may take to end. A server that stops counts it from when its
// process first saw that: deletionTimestamp is by the API server's clock, and where that is behind ours, patience would
// end before it began. A new leader begins anew.
const SlowNode = 50 * time.Second

// Overdue says which pod of a slot has not ended long after its grace period, empty for none. Kubelet is to end it:
// where its node is gone, nobody does. The API server shows each pod that kubelet removes once more before it is gone,
// with the present time for the end of its grace period.
func (s *Snapshot) Overdue(slot workload.Slot) string {
	for _, pod := range s.Pods.Of(slot.Component(), Ending) {
		if pod.DeletionTimestamp.Add(SlowNode).Before(s.Now) {
			return "pod " + pod.Name + " has not ended in its grace period: if its node is gone for good, delete the Node, " +
				"or the pod with kubectl delete pod --force"
		}
	}
	return ""
}

// forRollout is the backend alone.
func (in *Slot) forRollout(slot workload.Slot) (there successive.Slot) {
	backend := &in.Backend
	if !backend.Exists() {
		return there
	}
	there.Terminating = backend.Live.DeletionTimestamp != nil
	there.RolledOut, there.Ready = backend.Progress == Complete, backend.Live.Status.ReadyReplicas
	if backend.Claimable() {
		there.Content = v1alpha1.BackendContent{
			Slot: int32(slot), Hash: backend.Hash, Generation: backend.Revision.Generation,
		}
	}
	return there
}

// Backends are those of all slots.
func (s *Snapshot) Backends() []*Backend {
	all := make([]*Backend, 0, len(workload.Slots))
	for _, slot := range workload.Slots {
		all = append(all, &s.Slots[slot].Backend)
	}
	return all
}

// HasBackend reports whether a backend stands that is not on its way out.
func (s *Snapshot) HasBackend() bool {
	return slices.ContainsFunc(s.Backends(), func(b *Backend) bool {
		return b.Exists() && b.Live.DeletionTimestamp == nil
	})
}

// Policy is the NetworkPolicy before the backend.
func (s *Snapshot) Policy() Child[*networkingv1.NetworkPolicy] { return s.policy }
