package workload

import "github.com/freehold-dev/freehold/controllers/kinds"

// Keys of labels and annotations.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	// LabelServer has the Owner.Key of the owner of an object or pod.
	LabelServer = "freehold.dev/server"

	// AnnotationBackendHash is the hash of the backend's own content, on its pods. They carry no revision, which new
	// content of the proxy alone changes too: each change of a pod template replaces the pods.
	AnnotationBackendHash = "freehold.dev/backend-hash"
)

// ManagedBy is the value of LabelManagedBy.
const ManagedBy = "freehold"

// Values of LabelComponent.
const (
	// ComponentProxy is the proxy's Deployment, pods and Service.
	ComponentProxy = "proxy"
	// ComponentBackend is the StatefulSet of Slot1, its pods and its Services, and the NetworkPolicy.
	ComponentBackend = "backend"
	// ComponentRunner is the runner's identity and run config.
	ComponentRunner = "runner"
)

// Labels of an object or a pod of the owner with this key.
func Labels(key, component string) map[string]string {
	name, _ := kinds.SplitKey(key)
	return map[string]string{
		LabelManagedBy: ManagedBy,
		LabelName:      name,
		LabelComponent: component,
		LabelServer:    key,
	}
}

// Selector selects the pods of one component. It has only labels that never change, because selectors of Deployments
// and StatefulSets are immutable.
func Selector(key, component string) map[string]string {
	return map[string]string{
		LabelServer:    key,
		LabelComponent: component,
	}
}
