// Package snapshot reads everything that a pass over an MCPServer or MCPRemoteProxy looks at, once, and names
// what it says: who controls each child, which revision it carries, how far its rollout is, which pods run and why
// one fails, and what the status said before. Read makes a Snapshot; Of, which is pure, does so from objects.
// It has no result of the pass in it.
package snapshot

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// Objects are what was read. A pointer is nil where there is no such object.
type Objects struct {
	Account *corev1.ServiceAccount
	Role    *rbacv1.Role
	Binding *rbacv1.RoleBinding
	Service *corev1.Service

	Proxy   *appsv1.Deployment
	Backend *appsv1.StatefulSet
	// Calls and Names are the Services of the backend.
	Calls, Names *corev1.Service
	// Policy is the NetworkPolicy of the backend.
	Policy *networkingv1.NetworkPolicy

	// RunConfigs are without their data.
	RunConfigs []metav1.PartialObjectMetadata
	Pods       []corev1.Pod
	// Complaints are what Events say of the pods, also of those that are gone.
	Complaints []conditions.Complaint
	Configs    Configs
	// Leftover is the NetworkPolicy of an earlier server of this name, nil if there is none.
	Leftover *networkingv1.NetworkPolicy
	// Hidden says that a child was found which the cache does not show: no event tells its end.
	Hidden bool
}

// TrackID names the proxy and the backend of one content.
type TrackID string

// Incumbent is the track that serves, and the only one: content that is tried beside it is another one.
const Incumbent TrackID = "incumbent"

// Track is the proxy and the backend of one content, and what stands around the backend.
type Track struct {
	Proxy   Proxy
	Backend Backend
	// Calls and Names are the Services of the backend.
	Calls, Names Child[*corev1.Service]
	// Policy is the NetworkPolicy of the backend.
	Policy Child[*networkingv1.NetworkPolicy]
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
	Tracks  map[TrackID]*Track

	Pods       Pods
	Complaints Complaints
	Configs    Configs
	Leftover   *networkingv1.NetworkPolicy
	Hidden     bool
	// Refused is what refuses pods of the backend, Stops since when the server stops, and Held what this process has
	// claimed of it.
	Refused Refused
	Stops   Stops
	Held    Held
	// Settling is how much longer the numbers of the backend's pods may be on their way, 0 if they are not.
	Settling time.Duration
	// RememberedAs are the names of the intents that the writer found the children to match which carry content, by uid.
	// Those need not be rendered again.
	RememberedAs map[types.UID]string
	// Last is what the status said before this pass.
	Last Reported

	runConfigs []metav1.PartialObjectMetadata
	foreign    foreign
}

// Of names what objects say that were read at a time. It keeps the objects.
func Of(object kinds.Object, objects Objects, now time.Time) *Snapshot {
	s := &Snapshot{
		Object: object, Kind: kinds.Of(object), Now: now,
		Account: childOf(object, objects.Account), Role: childOf(object, objects.Role),
		Binding: childOf(object, objects.Binding),
		Service: childOf(object, objects.Service),
		Tracks: map[TrackID]*Track{Incumbent: {
			Proxy: proxyOf(object, objects.Proxy), Backend: backendOf(object, objects.Backend),
			Calls: childOf(object, objects.Calls), Names: childOf(object, objects.Names),
			Policy: childOf(object, objects.Policy),
		}},
		Pods: podsOf(objects.Pods), Configs: objects.Configs, Leftover: objects.Leftover, Hidden: objects.Hidden,
		Last: reported(object), runConfigs: objects.RunConfigs,
	}
	s.Complaints = Complaints{all: objects.Complaints, proxy: s.Proxy().Written, backend: s.Backend().Written, now: now}
	s.Settling = settling(s)
	return s
}

// Incumbent is the track that serves.
func (s *Snapshot) Incumbent() *Track { return s.Tracks[Incumbent] }

// Proxy is that of the track that serves.
func (s *Snapshot) Proxy() *Proxy { return &s.Incumbent().Proxy }

// Backend is that of the track that serves.
func (s *Snapshot) Backend() *Backend { return &s.Incumbent().Backend }

// Policy is the NetworkPolicy of the backend of the track that serves.
func (s *Snapshot) Policy() Child[*networkingv1.NetworkPolicy] { return s.Incumbent().Policy }
