package plan

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/mcpserver/successive"
)

// Action is one thing that a pass does, of one of the types below.
type Action any

// When is what has to be so for a step to be taken.
type When int

const (
	// Always takes a step, unless one before it ended the pass, or the claim was refused.
	Always When = iota
	// ClaimRefused takes a step where the claim was refused, or the beginning of a rollout, after which no other is taken.
	ClaimRefused
	// Unsound takes a step where one of its group was refused more than fields.
	Unsound
)

// Step is an action, and when it is done.
type Step struct {
	Action
	When When
}

// The actions of a server that is not being deleted.
type (
	// HoldFinalizer holds the server until its deletion is done in order. It ends the pass if it writes.
	HoldFinalizer struct{}
	// RemovePolicy deletes a NetworkPolicy before the backend, and ends the pass if Ends says so.
	RemovePolicy struct {
		Policy *networkingv1.NetworkPolicy
		Ends   bool
	}
	// ApplyRoute applies the HTTPRoute, on which nothing rests.
	ApplyRoute struct{ Child }
	// RemoveRoute deletes the HTTPRoute of a server whose spec asks for none.
	RemoveRoute struct{ Live *unstructured.Unstructured }
	// ConfirmClaim reads the server live, and ends the pass if it has another claim than the snapshot.
	ConfirmClaim struct{}
	// KeepClaim remembers that this process found the target claimed as it would have.
	KeepClaim struct{}
	// Yield leaves the server to another operator for a while, and ends the pass; then it claims the target.
	Yield struct{}
	// MakeSessionKey makes the Secret with the key of session ids before the claim that records its name.
	MakeSessionKey struct{ Name string }
	// WriteClaim writes status.workload.
	WriteClaim struct {
		// Record says that the number is claimed, and that what is recorded beside it differs. If it writes, the pass ends.
		Record bool
	}
	// WritePlan writes which backend gets the calls, and how far a rollout is. If Ends says so and it writes, the pass
	// ends: what follows rests on what is stored. If it Begins a rollout and is refused, that is as of a claim.
	WritePlan struct {
		successive.Status
		Ends, Begins bool
	}
	// EmptySlot deletes what stands in a slot that nothing uses any more, unless the server is not the one that was read.
	EmptySlot struct{ Objects []client.Object }
	// Objects applies all that is the operator's. What was handed over is taken over only if all of it can be.
	Objects struct{ Steps []Step }
	// ApplyIdentity applies what the runner acts with, each only after the one that it rests on. Untaken leaves
	// what was handed over as it is.
	ApplyIdentity struct {
		Children []Child
		Untaken  bool
	}
	// ApplyChild applies a child that no content is in.
	ApplyChild struct{ Child }
	// ApplyRunConfig applies the run config of the target. Name is that of the intent.
	ApplyRunConfig struct {
		Live *metav1.PartialObjectMetadata
		Name string
	}
	// StoreContent keeps the content of the target's backend, in the place of an older record of it, nil for none.
	StoreContent struct{ Replaces *metav1.PartialObjectMetadata }
	// RemoveContent deletes content that is none of the last.
	RemoveContent struct{ Live *metav1.PartialObjectMetadata }
	// ApplyProxy applies the Deployment of the target, through the gate. Name is that of the intent.
	ApplyProxy struct {
		Name     string
		Replicas int32
		// StopsFirst says that pods stop before their successors are ready, which may be never.
		StopsFirst bool
		// Kept restates what stands, in place of the target's; nil for none.
		Kept *appsv1ac.DeploymentApplyConfiguration
		// Stands says that the proxy has all that the target's pods need: it is repaired though others of its
		// group were refused, if the runner's account is the server's, or the server is Suspended.
		Stands, Suspended bool
	}
	// StopProxy scales a proxy to zero that the spec no longer lets serve, where what is to take its place was refused.
	StopProxy struct {
		Live   *appsv1.Deployment
		Intent *appsv1ac.DeploymentApplyConfiguration
	}
	// RemoveRunConfig deletes a run config that no pod mounts or is about to.
	RemoveRunConfig struct{ Live *metav1.PartialObjectMetadata }
	// ScaleBackend carries spec.replicas to the backend.
	ScaleBackend struct {
		Live     *appsv1.StatefulSet
		Replicas int32
	}
	// Report says what is so.
	Report struct{}
)

// The actions of a server that is being deleted.
type (
	// OrphanChildren says that the objects stay.
	OrphanChildren struct{}
	// StopProxies scales the proxy to zero, at the version that was read: its content is restated as it is, so it
	// must not have moved.
	StopProxies struct {
		Live   *appsv1.Deployment
		Intent *appsv1ac.DeploymentApplyConfiguration
	}
	// AwaitProxies says that calls are to end.
	AwaitProxies struct{}
	// DeleteBackend deletes the StatefulSet, though Left proxy pods have not ended within After.
	DeleteBackend struct {
		Live  *appsv1.StatefulSet
		Left  int
		After time.Duration
	}
	// AwaitBackend says that the pods of the backend are to end.
	AwaitBackend struct{}
	// DeletePolicy deletes the NetworkPolicy before the backend, though Left pods of it have not ended within After.
	DeletePolicy struct {
		Live  *networkingv1.NetworkPolicy
		Left  int
		After time.Duration
	}
	// ReleaseFinalizer lets the server go.
	ReleaseFinalizer struct{}
)

// Child is an object that is wanted, and what stands in its place.
type Child struct {
	Manager ownership.Manager
	Live    client.Object
	Intent  runtime.ApplyConfiguration
	// Lost says that Live is there, and that the server does not control it.
	Lost bool
}

func (p *Plan) always(actions ...Action) {
	for _, a := range actions {
		p.Steps = append(p.Steps, Step{a, Always})
	}
}

func (p *Plan) ifClaimRefused(actions ...Action) {
	for _, a := range actions {
		p.Steps = append(p.Steps, Step{a, ClaimRefused})
	}
}
