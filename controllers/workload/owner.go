package workload

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// Owner is an object whose children are built here, of any kind with a proxy.
type Owner struct {
	APIVersion, Kind string
	// Resource is the plural of the kind, as rules of a Role name it.
	Resource string
	// Suffix keeps the children of two kinds apart whose owners have one name. It
	// is empty for an MCPServer, and for any other kind lower-case letters that no
	// other kind has.
	Suffix string
	// Backend says that the owner's runner makes a backend.
	Backend bool

	Namespace, Name string
	UID             types.UID

	// Metadata is what its objects carry beside what is ours.
	Metadata podtemplate.Metadata
}

// OwnerOf is an object as the owner of its children.
func OwnerOf(object kinds.Object) Owner { return OwnerIn(runspec.Server(object)) }

// OwnerWith is the same, with what the release says of all objects.
func OwnerWith(object kinds.Object, defaults podtemplate.ObjectDefaults) Owner {
	owner := OwnerOf(object)
	owner.Metadata = defaults.Of(object)
	return owner
}

// OwnerIn is the owner that a run config names.
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

// Key names an owner among those of all kinds in its namespace: NAME for an
// MCPServer, NAME.SUFFIX for another, and no name holds a dot. Labels, selectors
// and names of children are made of it.
func (o Owner) Key() string {
	if o.Suffix == "" {
		return o.Name
	}
	return o.Name + "." + o.Suffix
}

// NameOf is the name of the owner with this key, and the suffix of its kind.
func NameOf(key string) (name, suffix string) {
	name, suffix, _ = strings.Cut(key, ".")
	return name, suffix
}

// reference makes a child be collected with its owner. blockOwnerDeletion keeps a
// foreground deletion of the owner waiting for it.
func (o Owner) reference() *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(o.APIVersion).
		WithKind(o.Kind).
		WithName(o.Name).
		WithUID(o.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}
