package workload

// Keys of labels and annotations.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	// LabelServer has the Owner.Key of whose child an object or a pod is.
	LabelServer = "freehold.dev/server"

	// AnnotationBackendHash is the hash of the backend's own content, on its pods.
	// They carry no revision: that changes also with content of the proxy alone, and
	// each change of a pod template replaces the pods.
	AnnotationBackendHash = "freehold.dev/backend-hash"
)

// ManagedBy is the value of LabelManagedBy.
const ManagedBy = "freehold"

// Values of LabelComponent.
const (
	// ComponentProxy is the proxy's Deployment, pods and Service.
	ComponentProxy = "proxy"
	// ComponentBackend is the StatefulSet, its pods and its Services.
	ComponentBackend = "backend"
	// ComponentRunner is what the runner is given: identity and run config.
	ComponentRunner = "runner"
)

// Labels of an object or a pod of the owner with this key.
func Labels(key, component string) map[string]string {
	name, _ := NameOf(key)
	return map[string]string{
		LabelManagedBy: ManagedBy,
		LabelName:      name,
		LabelComponent: component,
		LabelServer:    key,
	}
}

// Selector selects the pods of one component of the owner with this key. It
// holds only labels that never change, because a Deployment's and a
// StatefulSet's selector cannot.
func Selector(key, component string) map[string]string {
	return map[string]string{
		LabelServer:    key,
		LabelComponent: component,
	}
}
