package workload

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Keys of labels and annotations.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	// LabelServer names the MCPServer that an object or a pod belongs to.
	LabelServer = "freehold.dev/server"

	// AnnotationBackendHash is the hash of the backend's own content, on its pods.
	// They carry no revision: that changes also with content of the proxy alone, and
	// each change of a pod template replaces the pods.
	AnnotationBackendHash = "freehold.dev/backend-hash"
	// AnnotationGuards names what a proxy pod holds calls against, so that a proxy
	// which lacks a protection is known by its template.
	AnnotationGuards = "freehold.dev/guards"
	// AnnotationRestartedAt is spec.restartedAt, on the backend's pods.
	AnnotationRestartedAt = "freehold.dev/restarted-at"
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

// reservedPrefixes are the keys of labels and annotations that are not the
// user's to set on our objects.
var reservedPrefixes = []string{"freehold.dev/", "app.kubernetes.io/"}

// Labels of an object or a pod of the named server.
func Labels(server, component string) map[string]string {
	return map[string]string{
		LabelManagedBy: ManagedBy,
		LabelName:      server,
		LabelComponent: component,
		LabelServer:    server,
	}
}

// Selector selects the pods of one component of the named server. It holds
// only labels that never change, because a Deployment's and a StatefulSet's
// selector cannot.
func Selector(server, component string) map[string]string {
	return map[string]string{
		LabelServer:    server,
		LabelComponent: component,
	}
}

// owner makes a child be collected with its server. blockOwnerDeletion keeps a
// foreground deletion of the server waiting for it.
func owner(server runconfig.Server) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.SchemeGroupVersion.String()).
		WithKind("MCPServer").
		WithName(server.Name).
		WithUID(types.UID(server.UID)).
		WithController(true).
		WithBlockOwnerDeletion(true)
}

func reserved(key string) bool {
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
