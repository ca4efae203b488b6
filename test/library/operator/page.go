package operator

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// GroupVersion is the API of pages.
var GroupVersion = schema.GroupVersion{Group: "wiki.example.com", Version: "v1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Page{}, &PageList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Page is a page of the wiki.
type Page struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              PageSpec   `json:"spec"`
	Status            PageStatus `json:"status,omitempty"`
}

// PageSpec is what its author writes.
type PageSpec struct {
	Text string `json:"text"`
}

// PageStatus is what the operator says of it.
type PageStatus struct {
	ConfigMap  string             `json:"configMap,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PageList is a list of pages.
type PageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Page `json:"items"`
}

// DeepCopyObject is a copy that shares nothing.
func (p *Page) DeepCopyObject() runtime.Object {
	copied := *p
	p.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = slices.Clone(p.Status.Conditions)
	return &copied
}

// DeepCopyObject is a copy that shares nothing.
func (l *PageList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = nil
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopyObject().(*Page))
	}
	return &copied
}

// pageIntent is a statement about a page: pointers and nothing that is always there, since what is stated is owned.
// applyconfiguration-gen generates such types for kinds that have more fields.
type pageIntent struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`
	Status                                 statusIntent `json:"status"`
}

type statusIntent struct {
	ConfigMap  *string                                 `json:"configMap,omitempty"`
	Conditions []*metav1ac.ConditionApplyConfiguration `json:"conditions,omitempty"`
}

// IsApplyConfiguration makes it one.
func (*pageIntent) IsApplyConfiguration() {}
