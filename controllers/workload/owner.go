package workload

import (
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// Owner is an object of any kind with a proxy, whose children are built here.
type Owner struct {
	APIVersion, Kind string
	// Resource is the plural of the kind, as in the rules of a Role.
	Resource string
	// Suffix distinguishes the children of two kinds whose owners have one name: empty for an MCPServer, else lower-case
	// letters unique to the kind.
	Suffix string
	// Backend reports whether the owner's runner creates a backend.
	Backend bool

	Namespace, Name string
	UID             types.UID

	Metadata podtemplate.Metadata
}

// OwnerOf is an object as the owner of its children.
func OwnerOf(object kinds.Object) Owner { return OwnerIn(runspec.Server(object)) }

// OwnerWith is OwnerOf with the metadata of the release.
func OwnerWith(object kinds.Object, defaults podtemplate.ObjectDefaults) Owner {
	owner := OwnerOf(object)
	owner.Metadata = defaults.Of(object)
	return owner
}

// OwnerIn is the owner in a run config.
func OwnerIn(id runconfig.Server) Owner {
	kind, known := kinds.Named(id.Kind)
	if !known {
		return Owner{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, UID: types.UID(id.UID)}
	}
	return Owner{
		APIVersion: kind.Object.GroupVersion().String(), Kind: kind.Object.Kind, Resource: kind.Object.Resource(),
		Suffix: kind.Suffix, Backend: kind.Backend,
		Namespace: id.Namespace, Name: id.Name, UID: types.UID(id.UID),
	}
}

// Key is in labels, selectors and names of children.
func (o Owner) Key() string { return kinds.KeyOf(o.Name, o.Suffix) }

// reference makes a child be collected with its owner. blockOwnerDeletion makes a foreground deletion wait for it.
func (o Owner) reference() *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(o.APIVersion).
		WithKind(o.Kind).
		WithName(o.Name).
		WithUID(o.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}
