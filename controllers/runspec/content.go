package runspec

import (
	"encoding/json"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// ContentOf are the fields of OnlyContent as JSON.
func ContentOf(spec *v1alpha1.MCPServerSpec) (json.RawMessage, error) {
	return json.Marshal(OnlyContent(spec))
}

// OnlyContent are the fields of a spec that the pod template of the backend comes of, and no others: who writes them
// back gets the same pods again. Claims of volumes are not among them, because they cannot change.
func OnlyContent(spec *v1alpha1.MCPServerSpec) v1alpha1.MCPServerSpec {
	only := v1alpha1.MCPServerSpec{
		Image: spec.Image, Command: spec.Command, Args: spec.Args, Env: spec.Env, EnvFrom: spec.EnvFrom,
		Transport: spec.Transport, Port: spec.Port, Stdio: spec.Stdio, Resources: spec.Resources,
		Volumes: spec.Volumes, VolumeMounts: spec.VolumeMounts,
		ImagePullPolicy: spec.ImagePullPolicy, ImagePullSecrets: spec.ImagePullSecrets,
		ServiceAccountName: spec.ServiceAccountName, PodTemplate: spec.PodTemplate,
	}
	only.Path, only.RestartedAt = spec.Path, spec.RestartedAt
	return only
}

// ContentFields are the names of the fields of ContentOf.
func ContentFields() []string {
	return []string{
		"image", "command", "args", "env", "envFrom", "transport", "port", "stdio", "resources", "volumes",
		"volumeMounts", "imagePullPolicy", "imagePullSecrets", "serviceAccountName", "podTemplate", "path", "restartedAt",
	}
}

// TakesPath reports whether spec.path goes back with content. Only the bridge of an event stream has it in the pod
// template: other content keeps the path of its first claim, and may have been called at another one since.
func TakesPath(from, to *v1alpha1.MCPServerSpec) bool {
	was := transport(to.Transport)
	return was == v1alpha1.TransportSSE || was != transport(from.Transport)
}
