package runspec

import (
	"encoding/json"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// ContentOf are the fields of a spec that the pod template of the backend comes of, as JSON, and no others: who writes
// them back gets the same pods again. Claims of volumes are not among them, because they cannot change.
func ContentOf(spec *v1alpha1.MCPServerSpec) (json.RawMessage, error) {
	only := v1alpha1.MCPServerSpec{
		Image: spec.Image, Command: spec.Command, Args: spec.Args, Env: spec.Env, EnvFrom: spec.EnvFrom,
		Transport: spec.Transport, Port: spec.Port, Stdio: spec.Stdio, Resources: spec.Resources,
		Volumes: spec.Volumes, VolumeMounts: spec.VolumeMounts,
		ImagePullPolicy: spec.ImagePullPolicy, ImagePullSecrets: spec.ImagePullSecrets,
		ServiceAccountName: spec.ServiceAccountName, PodTemplate: spec.PodTemplate,
	}
	only.Path, only.RestartedAt = spec.Path, spec.RestartedAt
	return json.Marshal(only)
}

// ContentFields are the names of the fields of ContentOf.
func ContentFields() []string {
	return []string{
		"image", "command", "args", "env", "envFrom", "transport", "port", "stdio", "resources", "volumes",
		"volumeMounts", "imagePullPolicy", "imagePullSecrets", "serviceAccountName", "podTemplate", "path", "restartedAt",
	}
}
