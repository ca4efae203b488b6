package podtemplate

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// Stated is a pod template with what the API server fills in beside it, where that stays once the template says
// something else. A default belongs to no field manager, so that no apply takes it away again:
//
//   - emptyDir of a volume without a source, which stands beside the next source;
//   - the deprecated name of serviceAccountName, from which the account comes back;
//   - the pull policy of a container and of a volume with an image, which is that of the
//     image's first tag.
//
// The values are those of the API server, so that no pod is replaced for them. No hash of content covers them, for the
// same reason. The template stays as it is. A test finds what is missing here.
func Stated(template *corev1ac.PodTemplateSpecApplyConfiguration) *corev1ac.PodTemplateSpecApplyConfiguration {
	out, spec := *template, *template.Spec
	out.Spec = &spec
	spec.Volumes = slices.Clone(spec.Volumes)
	for i := range spec.Volumes {
		switch v := &spec.Volumes[i]; {
		case v.VolumeSourceApplyConfiguration == corev1ac.VolumeSourceApplyConfiguration{}:
			v.WithEmptyDir(corev1ac.EmptyDirVolumeSource())
		case v.Image != nil && v.Image.PullPolicy == nil && v.Image.Reference != nil:
			image := *v.Image
			v.Image = image.WithPullPolicy(pullPolicy(*image.Reference))
		}
	}
	if spec.ServiceAccountName != nil {
		spec.WithDeprecatedServiceAccount(*spec.ServiceAccountName) // so that it goes with its successor
	}
	spec.InitContainers, spec.Containers = withPullPolicy(spec.InitContainers), withPullPolicy(spec.Containers)
	return &out
}

func withPullPolicy(containers []corev1ac.ContainerApplyConfiguration) []corev1ac.ContainerApplyConfiguration {
	containers = slices.Clone(containers)
	for i := range containers {
		if c := &containers[i]; c.ImagePullPolicy == nil && c.Image != nil {
			c.WithImagePullPolicy(pullPolicy(*c.Image))
		}
	}
	return containers
}

// pullPolicy is the API server's default: Always for the tag latest and for an image without tag and digest, else
// IfNotPresent (https://kubernetes.io/docs/concepts/containers/images/#imagepullpolicy-defaulting).
func pullPolicy(image string) corev1.PullPolicy {
	parts := reference.FindStringSubmatch(image)
	if parts == nil || identifier.MatchString(image) {
		return corev1.PullIfNotPresent
	}
	if tag, digest := parts[1], parts[2]; tag == "latest" || tag == "" && digest == "" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// reference is the grammar of image names with tag and digest as groups
// (https://github.com/distribution/reference/blob/v0.6.0/reference.go); identifier matches what is no name, though
// the grammar allows it.
var (
	reference = regexp.MustCompile(`^(?:(?:` + domain + `)/)?` + component + `(?:/` + component +
		`)*(?::(\w[\w.-]{0,127}))?(@[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,})?$`)

	identifier = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

const (
	domain    = `(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
	component = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
)
