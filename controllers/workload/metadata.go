package workload

import (
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

type object[T any] interface {
	WithLabels(entries map[string]string) T
	WithAnnotations(entries map[string]string) T
	WithOwnerReferences(values ...*metav1ac.OwnerReferenceApplyConfiguration) T
}

func child[T object[T]](ac T, owner Owner, component string) T {
	return Described(ac, owner.Metadata).
		WithLabels(Labels(owner.Key(), component)).
		WithOwnerReferences(owner.reference())
}

// Described adds the user's metadata to an object, which keeps its own.
func Described[T object[T]](ac T, meta podtemplate.Metadata) T {
	return ac.WithLabels(unreserved(meta.Labels)).WithAnnotations(unreserved(meta.Annotations))
}

// RunnersObjects is the metadata of the objects that the runner creates, as the operator recorded it. So it changes
// without a new run config, which would replace pods.
func RunnersObjects(server kinds.Object) podtemplate.Metadata {
	if claimed := server.GetProxyStatus().Workload; claimed != nil {
		return podtemplate.Metadata{Labels: claimed.Labels, Annotations: claimed.Annotations}
	}
	return podtemplate.Metadata{}
}

func unreserved(entries map[string]string) map[string]string {
	theirs := map[string]string{}
	for key, value := range entries {
		if isTheirs(key, value) {
			theirs[key] = value
		}
	}
	return theirs
}

func isTheirs(key, _ string) bool { return !podtemplate.Reserved(key) }
