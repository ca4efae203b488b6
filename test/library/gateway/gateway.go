// Package gateway is a second kind of Freehold's, made to show what one takes: a
// proxy in front of a server elsewhere. gateway.go is the kind, contract.go who
// writes what, controller.go the pass.
package gateway

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Gateway is a proxy in front of a server elsewhere.
type Gateway struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

// Spec is what its author writes.
type Spec struct {
	Proxy *v1alpha1.ProxySpec `json:"proxy,omitempty"`
}

// Status is what the operator says of it.
type Status struct {
	Conditions []metav1.Condition       `json:"conditions,omitempty"`
	Workload   *v1alpha1.WorkloadStatus `json:"workload,omitempty"`
}

// List is a list of gateways.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Gateway `json:"items"`
}

// DeepCopyObject is a copy that shares nothing.
func (g *Gateway) DeepCopyObject() runtime.Object {
	copied := *g
	g.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec.Proxy = g.Spec.Proxy.DeepCopy()
	copied.Status = Status{Conditions: slices.Clone(g.Status.Conditions), Workload: g.Status.Workload.DeepCopy()}
	return &copied
}

// DeepCopyObject is a copy that shares nothing.
func (l *List) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = nil
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopyObject().(*Gateway))
	}
	return &copied
}

// AddToScheme makes the kind known beside the others of its group.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(kind, &Gateway{})
	scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("GatewayList"), &List{})
	return nil
}
